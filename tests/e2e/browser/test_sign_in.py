"""Into the page and out of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.conftest import OpenVisit, logs_of
from tests.e2e.conftest import DaemonProcess, start_daemon, stop_daemon

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """One without backends: quick to start."""
    running = start_daemon(tmp_path, 'blocked_plugins = ["llamacpp", "openai", "hello"]\n')
    yield running
    stop_daemon(running)


def at_sign_in(page: Page) -> None:
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_text("cerberus url", exact=True)).to_be_visible()


def test_u08_the_link_of_cerberus_url_signs_in_and_its_code_is_in_no_request_referer_or_log(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    said = daemon.cli("url").stdout.split()
    link = next(word for word in said if word.startswith(daemon.url))
    code = link.partition("#code=")[2]
    assert code
    here = visit(daemon)
    page = here.page(sign_in=False)
    page.goto("about:blank")
    here.requests.clear()
    page.goto(link)
    expect(page.get_by_test_id("connection")).to_have_text("✓Live")
    assert page.url == f"{daemon.url}/"
    page.reload()
    expect(page.get_by_test_id("connection")).to_have_text("✓Live")
    assert page.url == f"{daemon.url}/"
    page.go_back()
    assert code not in page.url

    secrets = (code, daemon.token)
    with_code = [r for r in here.requests if code in (r.post_data or "")]
    assert [(r.method, r.url) for r in with_code] == [("POST", f"{daemon.url}/api/login")]
    for request in here.requests:
        sent = request.all_headers()
        assert not sent.get("referer")
        assert not any(s in text for s in secrets for text in [request.url, *sent.values()])
    logs = logs_of(daemon)
    assert not any(secret in logs for secret in secrets)
    cookie = here.context.cookies()[0]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert daemon.token not in cookie["value"]


def test_a_wrong_code_says_so_and_how_to_get_a_new_one(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    page = visit(daemon).page(sign_in=False)
    page.get_by_label("One-time code").fill("nonsense")
    page.get_by_role("button", name="Sign in").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("This code doesn’t work")
    expect(alert).to_contain_text("cerberus url")
    expect(page.get_by_label("One-time code")).to_have_attribute("aria-invalid", "true")


def test_a_used_link_says_so_and_a_fresh_code_typed_in_its_place_works(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    link = visit(daemon).link()
    first = visit(daemon).page(sign_in=False)
    first.goto("about:blank")
    first.goto(link)
    expect(first.get_by_test_id("connection")).to_have_text("✓Live")
    here = visit(daemon)
    page = here.context.new_page()
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("This code doesn’t work")
    assert page.url == f"{daemon.url}/"
    page.get_by_label("One-time code").fill(here.link().partition("#code=")[2])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_test_id("connection")).to_have_text("✓Live")


def test_a_used_link_locks_nobody_out_who_is_signed_in(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    here = visit(daemon)
    link = here.link()
    page = here.context.new_page()
    page.goto(link)
    expect(page.get_by_test_id("connection")).to_have_text("✓Live")
    again = here.context.new_page()
    again.goto(link)
    expect(again.get_by_test_id("connection")).to_have_text("✓Live")


def test_a_link_opened_in_a_tab_that_shows_the_page_signs_it_in(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    here = visit(daemon)
    page = here.page(sign_in=False)
    at_sign_in(page)
    page.goto(here.link())  # the same document: only its fragment changes
    expect(page.get_by_test_id("connection")).to_have_text("✓Live")
    assert page.url == f"{daemon.url}/"


def test_u03_a_signed_out_page_shows_how_to_get_in_and_gets_nothing_of_the_api(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    here = visit(daemon)
    page = here.page(sign_in=False)
    at_sign_in(page)
    expect(page.get_by_test_id("connection")).to_have_text("○Signed out")
    answers = [r.response() for r in here.requests if "/api/" in r.url]
    assert {answer.status for answer in answers if answer} == {401}


def test_sign_out_ends_the_visit_and_a_reload_does_not_bring_it_back(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    here = visit(daemon)
    page = here.page()
    page.get_by_role("button", name="Sign out").click()
    at_sign_in(page)
    assert here.context.cookies() == []
    page.reload()
    at_sign_in(page)


def test_a_page_whose_cookie_is_gone_falls_back_to_the_sign_in_at_its_next_step(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    here = visit(daemon)
    page = here.page()
    here.context.clear_cookies()
    page.evaluate("window.dispatchEvent(new Event('online'))")  # it connects anew
    at_sign_in(page)
