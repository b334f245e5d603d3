"""What a reload, the back button and a new sign-in leave as it was."""

import pytest
from playwright.sync_api import Page, expect

from cerberus_core.testing.scripted import CLOSE, Reply, chat_chunks
from tests.e2e.browser.conftest import OpenVisit, Scripted, answered, ask, switch_to
from tests.e2e.conftest import start_daemon, stop_daemon

pytestmark = pytest.mark.timeout(180)


def live(page: Page) -> None:
    expect(page.get_by_test_id("connection")).to_have_text("✓Live")


def test_a_reload_keeps_the_conversation_and_it_goes_on(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    scripted.server.reply = Reply.stream(chat_chunks(["My **name** ", "is m."]))
    ask(page, "Who are you?")
    answered(page)
    stats = page.get_by_test_id("stats").inner_text()
    page.get_by_label("Message").fill("half a quest")
    page.reload()
    live(page)
    expect(page.get_by_role("log")).to_contain_text("Who are you?")
    expect(page.get_by_test_id("answer").locator("strong")).to_have_text("name")
    expect(page.get_by_test_id("stats")).to_have_text(stats)
    expect(page.get_by_label("Message")).to_have_value("half a quest")
    ask(page, "And what was that?")
    answered(page)
    asked = scripted.server.requests[-1].json()["messages"]
    assert [message["content"] for message in asked] == [
        "Who are you?",
        "My **name** is m.",
        "And what was that?",
    ]


def test_an_answer_that_a_reload_cut_off_keeps_what_came_and_can_be_asked_anew(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    scripted.server.reply = Reply.stream([chat_chunks(["Only this"])[0], scripted.wait()])
    ask(page, "hi")
    expect(page.get_by_test_id("answer")).to_have_text("Only this")
    page.reload()
    live(page)
    expect(page.get_by_test_id("answer")).to_have_text("Only this")
    expect(page.get_by_text("Stopped")).to_be_visible()
    scripted.server.reply = Reply.stream(chat_chunks(["All of it"]))
    page.get_by_role("log").get_by_role("button", name="Try again").click()
    expect(page.get_by_test_id("answer")).to_have_text("All of it")


def test_an_error_is_kept_with_its_hint(scripted: Scripted, visit: OpenVisit) -> None:
    page = visit(scripted.daemon).page()
    scripted.server.reply = Reply.stream([chat_chunks(["Half"])[0], CLOSE])
    ask(page, "hi")
    alert = page.get_by_role("log").get_by_role("alert")
    expect(alert).to_contain_text("Asking again may help.")
    said = alert.inner_text()
    page.reload()
    live(page)
    assert alert.inner_text() == said


def test_a_new_chat_is_still_empty_after_a_reload(scripted: Scripted, visit: OpenVisit) -> None:
    page = visit(scripted.daemon).page()
    ask(page, "a secret")
    answered(page)
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_label("Message")).to_be_focused()
    page.reload()
    live(page)
    expect(page.get_by_text("Ask the model something.")).to_be_visible()
    assert "secret" not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")


def test_sign_out_leaves_nothing_of_the_conversation(scripted: Scripted, visit: OpenVisit) -> None:
    here = visit(scripted.daemon)
    page = here.page()
    ask(page, "a secret")
    answered(page)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "secret" not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
    page.goto(here.link())
    live(page)
    expect(page.get_by_text("Ask the model something.")).to_be_visible()


@pytest.mark.parametrize(
    "fault",
    [
        "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') }",
        "Object.defineProperty(window, 'sessionStorage',"
        " {get() { throw new DOMException('', 'SecurityError') }})",
        "if (location.protocol !== 'about:')"
        " sessionStorage.setItem('cerberus.chat', '{\"turns\": [{\"question\": 7}]}')",
    ],
    ids=["full", "refused", "nonsense"],
)
def test_storage_that_is_full_refused_or_full_of_nonsense_keeps_nobody_from_talking(
    scripted: Scripted, visit: OpenVisit, fault: str
) -> None:
    here = visit(scripted.daemon)
    here.context.add_init_script(fault)
    page = here.page()
    ask(page, "hello")
    answered(page)
    expect(page.get_by_test_id("answer")).to_have_text("hello")
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_test_id("answer")).to_have_count(0)


def test_a_phones_tab_is_in_the_address_and_back_leads_to_the_one_before(
    scripted: Scripted, visit: OpenVisit
) -> None:
    here = visit(scripted.daemon, phone=True)
    page = here.page()
    current = page.get_by_role("navigation").locator("[aria-current=page]")
    switch_to(page, "Requests")
    switch_to(page, "Chat")
    assert page.url == f"{here.url}/#/chat"
    page.reload()
    live(page)
    expect(current).to_have_text("Chat")
    expect(page.get_by_label("Message")).to_be_visible()
    page.go_back()
    expect(current).to_have_text("Requests")
    expect(page.get_by_role("heading", name="Finished")).to_be_visible()
    page.go_back()
    expect(current).to_have_text("Home")
    expect(page.locator("tr[data-state]")).to_be_visible()
    # A sign-in link in this very tab is still one, and its code doesn't stay.
    switch_to(page, "Chat")
    page.goto(here.link())
    live(page)
    expect(current).to_have_text("Home")
    assert page.url == f"{here.url}/"


def test_a_new_token_asks_to_sign_in_again_says_why_and_the_chat_is_still_there(
    scripted: Scripted, visit: OpenVisit, tmp_path_factory: pytest.TempPathFactory
) -> None:
    old = scripted.daemon
    here = visit(old)
    page = here.page()
    ask(page, "remember")
    answered(page)
    stop_daemon(old)
    config = old.folders.config_file.read_text().replace(old.token, f"{old.token}-new")
    port = int(old.url.rpartition(":")[2])
    new = start_daemon(tmp_path_factory.mktemp("another"), config, port)
    here.daemon = new
    try:
        page.evaluate("window.dispatchEvent(new Event('online'))")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.get_by_text("You were signed out")).to_be_visible()
        expect(page.get_by_text("cerberus url", exact=True)).to_be_visible()
        page.get_by_label("One-time code").fill(here.link())
        page.get_by_role("button", name="Sign in").click()
        live(page)
        expect(page.get_by_test_id("answer")).to_have_text("remember")
    finally:
        stop_daemon(new)
