"""The page stays true while networks and daemons come and go."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Route, expect

from tests.e2e.browser.conftest import (
    OpenVisit,
    Scripted,
    ask,
    post,
    until,
    wire_to,
)
from tests.e2e.conftest import start_daemon, stop_daemon

pytestmark = pytest.mark.timeout(300)


def test_u07_what_happened_while_the_network_was_gone_is_there_when_it_is_back(
    scripted: Scripted, visit: OpenVisit
) -> None:
    daemon = scripted.daemon
    with wire_to(daemon) as wire:
        here = visit(daemon, url=wire.url)
        page = here.page()
        finished = page.get_by_role("table", name="Finished").get_by_role("row")
        post(daemon, "one")
        expect(finished).to_have_count(2)
        with wire.cut_off():
            for question in ("two", "three"):
                post(daemon, question)
            banner = page.get_by_text(re.compile(r"Paused, as of \d\d:\d\d"))
            expect(banner).to_be_visible()
            expect(page.get_by_test_id("connection")).to_have_text("▲Offline")
            expect(finished).to_have_count(2)
        page.get_by_role("button", name="Try now").click()
        expect(finished).to_have_count(4)
        expect(banner).to_have_count(0)
        expect(page.get_by_test_id("connection")).to_have_text("✓Live")
        post(daemon, "four")
        expect(finished).to_have_count(5)
        last = here.asked("/api/events")[-1].all_headers()["last-event-id"]
    assert re.fullmatch(r"[^-]+-\d+", last)


def test_u07_a_page_that_missed_too_much_is_told_and_reads_all_anew(
    scripted: Scripted, visit: OpenVisit
) -> None:
    daemon = scripted.daemon
    here = visit(daemon)
    page = here.page()
    post(daemon, "so that there is an event id")
    expect(page.get_by_role("table", name="Finished").get_by_role("row")).to_have_count(2)
    read = len(here.asked("/api/models"))

    def of_another_life(route: Route) -> None:
        route.continue_(headers={**route.request.headers, "last-event-id": "another-7"})

    page.route("**/api/events", of_another_life)
    page.evaluate("window.dispatchEvent(new Event('online'))")  # connects anew, at once
    until(lambda: len(here.asked("/api/models")) == read + 1, page)
    page.unroute("**/api/events")
    expect(page.get_by_test_id("connection")).to_have_text("✓Live")
    post(daemon, "and it goes on")
    expect(page.get_by_role("table", name="Finished").get_by_role("row")).to_have_count(3)


def test_a_crowd_of_requests_ends_in_the_right_list(scripted: Scripted, visit: OpenVisit) -> None:
    page = visit(scripted.daemon).page()
    with httpx.Client(base_url=scripted.daemon.url, headers=scripted.daemon.headers) as client:

        def one(number: int) -> int:
            body = {"model": "up/m", "messages": [{"role": "user", "content": str(number)}]}
            return client.post("/v1/chat/completions", json=body).status_code

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(one, range(200))) == {200}
    finished = page.get_by_role("table", name="Finished").get_by_role("row")
    expect(finished).to_have_count(1 + 15)
    expect(page.get_by_text("Nothing is running.")).to_be_visible()
    page.get_by_role("button", name="Show all 50").click()
    expect(finished).to_have_count(1 + 50)
    page.get_by_role("button", name="Show fewer").click()
    expect(finished).to_have_count(1 + 15)


def test_a_restarted_daemon_pauses_the_page_and_then_its_new_state_is_shown(
    tmp_path: Path, scripted: Scripted, visit: OpenVisit
) -> None:
    old = scripted.daemon
    here = visit(old)
    page = here.page()
    post(old, "so that there is an event id")
    finished = page.get_by_role("table", name="Finished").get_by_role("row")
    expect(finished).to_have_count(2)
    stop_daemon(old)
    expect(page.get_by_text("Cerberus doesn’t answer. Trying again…")).to_be_visible()
    expect(finished).to_have_count(2)  # what was known stays in sight
    config = old.folders.config_file
    config.write_text(config.read_text().replace('["m"]', '["other"]'))
    port = int(old.url.rpartition(":")[2])
    new = start_daemon(tmp_path, "", port)
    try:
        assert new.url == old.url
        expect(page.locator("tr[data-state]")).to_contain_text("other")
        expect(page.get_by_test_id("connection")).to_have_text("✓Live")
        resumed = here.asked("/api/events")[-1].all_headers()
        assert "last-event-id" in resumed
        ask(page, "anew")
        expect(page.get_by_test_id("answer")).to_have_text("anew")
        expect(finished.nth(1)).to_contain_text("other")
    finally:
        stop_daemon(new)
