"""Few models and many, what needs a person, and when requests came."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.conftest import endpoint
from tests.e2e.browser.conftest import (
    OpenVisit,
    RunScripted,
    Scripted,
    answered,
    ask,
    post,
    row,
    switch_to,
)
from tests.e2e.conftest import start_daemon, stop_daemon

pytestmark = pytest.mark.timeout(180)


def test_an_endpoints_model_is_called_that_and_has_nothing_to_press(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    expect(row(page, "m")).to_contain_text("◇Endpoint")
    expect(row(page, "m")).not_to_contain_text("Ready")
    expect(row(page, "m").get_by_role("button")).to_have_count(0)
    expect(page.get_by_label("Model", exact=True)).not_to_contain_text("loads first")
    expect(page.get_by_label("Filter models")).to_have_count(0)


def test_among_a_hundred_models_a_few_are_shown_and_words_find_the_one(
    run_scripted: RunScripted, visit: OpenVisit
) -> None:
    scripted = run_scripted([f"family/model-{n}" for n in range(120)])
    page = visit(scripted.daemon).page()
    rows = page.locator("tr[data-state]")
    expect(rows).to_have_count(15)
    query = page.get_by_label("Filter models")
    query.fill("FAMILY 117")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("family/model-117")
    query.fill("nobody")
    expect(page.get_by_text("No model matches “nobody”.")).to_be_visible()
    page.get_by_role("button", name="Show all", exact=True).click()
    expect(query).to_have_value("")
    page.get_by_role("button", name="Show all 120").click()
    expect(rows).to_have_count(120)
    picker = page.get_by_label("Model", exact=True)
    expect(picker.locator("optgroup[label=up] option")).to_have_count(120)
    picker.select_option("up/family/model-77")
    ask(page, "hi")
    answered(page)
    assert scripted.server.requests[-1].json()["model"] == "family/model-77"


def test_the_chat_begins_with_the_model_of_the_settings_and_stays_with_the_one_that_was_picked(
    run_scripted: RunScripted, visit: OpenVisit
) -> None:
    scripted = run_scripted(["a", "b", "c"], tables="")
    config = scripted.daemon.folders.config_file
    assert scripted.daemon.cli("config", "set", "default_model", "up/b").returncode == 0
    stop_daemon(scripted.daemon)
    port = int(scripted.daemon.url.rpartition(":")[2])
    scripted.daemon = start_daemon(config.parents[1], "", port)
    try:
        page = visit(scripted.daemon).page()
        picker = page.get_by_label("Model", exact=True)
        expect(picker).to_have_value("up/b")
        picker.select_option("up/c")
        page.reload()
        expect(picker).to_have_value("up/c")
    finally:
        stop_daemon(scripted.daemon)


def test_what_needs_a_person_says_what_to_do(run_scripted: RunScripted, visit: OpenVisit) -> None:
    down = '[plugins.openai.endpoints.down]\nbase_url = "http://127.0.0.1:9/v1"\n'
    scripted = run_scripted(tables=f"{down}[server]\nprot = 1\n")
    page = visit(scripted.daemon).page()
    needs = page.get_by_role("region", name="Needs you").get_by_role("listitem")
    expect(needs).to_have_count(2)
    expect(needs.first).to_contain_text("server.prot")
    expect(needs.first).to_contain_text(f"Mend it in {scripted.daemon.folders.config_file}")
    expect(needs.last).to_contain_text("down: no answer from http://127.0.0.1:9/v1")
    expect(needs.last).to_contain_text("Is it running?")


def test_nothing_is_said_to_need_a_person_when_nothing_does(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    expect(page.locator("tr[data-state]")).to_be_visible()
    expect(page.get_by_text("Needs you")).to_have_count(0)


def test_rows_of_models_with_one_name_are_told_apart(
    tmp_path: Path, scripted: Scripted, visit: OpenVisit
) -> None:
    config = endpoint(scripted.server)
    folder = tmp_path / "two"
    folder.mkdir()
    daemon = start_daemon(folder, config + config.partition("\n")[2].replace(".up]", ".two]"))
    try:
        for model in ("up/m", "two/m"):
            post(daemon, "hi", model=model)
        rows = visit(daemon).page().get_by_role("table", name="Finished").get_by_role("row")
        expect(rows.nth(1)).to_contain_text("two/m")
        expect(rows.nth(2)).to_contain_text("up/m")
    finally:
        stop_daemon(daemon)


@pytest.mark.parametrize("phone", [True, False], ids=["phone", "desktop"])
def test_each_request_tells_when_it_came_once(
    scripted: Scripted, visit: OpenVisit, phone: bool
) -> None:
    post(scripted.daemon, "hi")
    page = visit(scripted.daemon, phone=phone).page()
    if phone:
        switch_to(page, "Requests")
    record = page.get_by_role("table", name="Finished").get_by_role("row").nth(1)
    expect(record).to_be_visible()
    assert len(re.findall(r"\d\d:\d\d:\d\d", record.inner_text())) == 1
