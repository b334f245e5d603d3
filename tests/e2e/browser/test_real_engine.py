"""The main job by sight: load a model, talk to it, stop it, see it all on a second tab."""

import httpx
import pytest
from playwright.sync_api import expect

from tests.e2e.browser.conftest import (
    OpenVisit,
    answered,
    ask,
    endless,
    post,
    row,
    short,
    until,
)
from tests.e2e.conftest import MODEL, DaemonProcess, EngineAddress

pytestmark = pytest.mark.timeout(300)

NOTE_WHAT_IS_SAID = """() => {
  const log = document.querySelector("[role=log]");
  window.said = [];
  window.measured = false;
  new MutationObserver(() => {
    const note = log.querySelector("[role=status]")?.textContent;
    if (note && note !== window.said.at(-1)) window.said.push(note);
    if (log.querySelector("progress")) window.measured = true;
  }).observe(log, {childList: true, subtree: true, characterData: true});
}"""


def test_a_model_is_loaded_answers_with_its_speed_and_is_unloaded(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    page = visit(daemon).page()
    short(page)
    smol = row(page, "smol")
    expect(smol).to_have_attribute("data-state", "unloaded")
    expect(smol).to_contain_text("Unloaded")
    page.get_by_role("button", name="Load smol", exact=True).click()
    expect(smol).to_contain_text("Loading")
    expect(smol).to_have_attribute("data-state", "ready")
    expect(smol).to_contain_text("Ready")
    expect(page.get_by_text("1 of 1 loaded")).to_be_visible()

    ask(page, "Say hello in a few words.")
    live = page.get_by_role("list", name="Running").get_by_role("listitem")
    expect(live).to_contain_text("smol")
    expect(smol).to_contain_text("1")
    answered(page)
    expect(page.get_by_test_id("answer")).not_to_be_empty()
    stats = page.get_by_test_id("stats")
    expect(stats).to_contain_text("TTFT")
    expect(stats).to_contain_text("tok/s")
    expect(stats).not_to_contain_text("—")
    expect(stats).not_to_contain_text("~")  # the daemon's figures, not the page's guess
    expect(live).to_have_count(0)
    finished = page.get_by_role("table", name="Finished").get_by_role("row")
    expect(finished).to_have_count(2)
    expect(finished.last).to_contain_text("✓ok")
    expect(finished.last).to_contain_text("tok/s")

    page.get_by_role("button", name="Unload smol").click()
    expect(smol).to_have_attribute("data-state", "unloaded")
    expect(page.get_by_role("button", name="Load smol", exact=True)).to_be_visible()


def test_the_chat_loads_a_model_by_itself_and_says_so(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    page = visit(daemon).page()
    short(page)
    picker = page.get_by_label("Model", exact=True)
    expect(picker).to_have_value(MODEL)
    expect(picker).to_contain_text("loads first")
    page.evaluate(NOTE_WHAT_IS_SAID)
    ask(page, "Hello!")
    answered(page)
    said = page.evaluate("window.said")
    assert said[0] == "Loading model…"
    assert page.evaluate("window.measured")  # with how far it has come
    assert set(said) <= {"Loading model…", "Waiting for the first token…"}
    expect(page.get_by_test_id("answer")).not_to_be_empty()
    expect(page.get_by_test_id("stats")).to_contain_text("loaded in")
    expect(row(page, "smol")).to_have_attribute("data-state", "ready")
    expect(picker).not_to_contain_text("loads first")


def test_a_conversation_goes_on_and_a_new_chat_begins_empty(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    page = visit(daemon).page()
    short(page)
    for question in ("My name is Ada.", "What is my name?"):
        ask(page, question)
        answered(page)
    expect(page.get_by_test_id("answer")).to_have_count(2)
    answer = httpx.get(f"{daemon.url}/api/requests", headers=daemon.headers).json()["recent"]
    second, first = (record["prompt_tokens"] for record in answer)
    assert second > first  # the first question and its answer went along
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_test_id("answer")).to_have_count(0)
    expect(page.get_by_text("Ask the model something.")).to_be_visible()


def test_stop_keeps_what_came_and_the_engine_is_idle(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    assert post(daemon, "Hi", MODEL, max_tokens=1).status_code == 200
    engine = EngineAddress(daemon.process.pid)

    def busy() -> bool:
        slots = httpx.get(f"{engine.url}/slots", headers=engine.headers).json()
        return any(slot["is_processing"] for slot in slots)

    page = visit(daemon).page()
    endless(page)
    ask(page, "Count from one to one thousand, in words, and leave none out.")
    answer = page.get_by_test_id("answer")
    expect(answer).not_to_be_empty()
    page.get_by_role("button", name="Stop").click()
    answered(page)
    until(lambda: not busy())
    expect(page.get_by_text("Stopped")).to_be_visible()
    expect(answer).not_to_be_empty()
    kept = answer.inner_text()
    finished = page.get_by_role("table", name="Finished").get_by_role("row").nth(1)
    expect(finished).to_contain_text("left")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert answer.inner_text() == kept


def test_a_second_tab_sees_the_same_by_events_alone(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    here = visit(daemon)
    first = here.page()
    short(first)
    second = here.tab()
    expect(row(second, "smol")).to_have_attribute("data-state", "unloaded")
    asked = len(here.asked("/api/models"))
    first.get_by_role("button", name="Load smol", exact=True).click()
    expect(row(second, "smol")).to_have_attribute("data-state", "ready")
    ask(first, "Say hello.")
    expect(second.get_by_role("list", name="Running").get_by_role("listitem")).to_have_count(1)
    answered(first)
    expect(second.get_by_role("table", name="Finished").get_by_role("row")).to_have_count(2)
    expect(second.get_by_role("list", name="Running")).to_have_count(0)
    second.get_by_role("button", name="Unload smol").click()
    expect(row(first, "smol")).to_have_attribute("data-state", "unloaded")
    # What fits has no events: each tab reads it once things have come to rest, not with each event.
    assert len(here.asked("/api/models")) - asked <= 6


def test_a_killed_engine_is_an_error_at_its_place_and_trying_again_helps(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    page = visit(daemon).page()
    endless(page)
    ask(page, "Count from one to one thousand, in words, and leave none out.")
    expect(page.get_by_test_id("answer")).not_to_be_empty()
    for child in daemon.descendants():
        if "cerberus_llamacpp.engine" in child.cmdline():
            child.kill()
    error = page.get_by_role("log").get_by_role("alert")
    expect(error).to_contain_text("SIGKILL")
    expect(error).to_contain_text("The next request loads it again.")
    expect(row(page, "smol")).to_have_attribute("data-state", "failed")
    expect(row(page, "smol")).to_contain_text("Failed")
    page.get_by_role("log").get_by_role("button", name="Try again").click()
    expect(page.get_by_test_id("answer")).not_to_be_empty()
    expect(error).to_have_count(0)
    expect(row(page, "smol")).to_have_attribute("data-state", "ready")
    page.get_by_role("button", name="Stop").click()
    answered(page)
