"""What goes wrong is told where it happens, with what to do about it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cerberus_llamacpp.testing import write_gguf
from playwright.sync_api import expect

from cerberus_core.testing.scripted import CLOSE, RESET, Reply, chat_chunks
from tests.e2e.browser.conftest import OpenVisit, RunScripted, Scripted, answered, ask, row
from tests.e2e.conftest import DaemonProcess, start_daemon, stop_daemon

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """One with a model that no engine can load, and half of another."""
    folder = tmp_path / "gguf"
    write_gguf(folder / "zeros.gguf")
    write_gguf(folder / "half.gguf", cut=100)
    config = (
        'blocked_plugins = ["hello", "openai"]\n[plugins.llamacpp]\nengine = "embedded"\n'
        f"folders = {json.dumps([str(folder)])}\nthreads = 1\n"
    )
    running = start_daemon(tmp_path, config)
    yield running
    stop_daemon(running)


def test_a_load_that_fails_says_why_in_its_row_with_the_engines_last_words_at_hand(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    page = visit(daemon).page()
    zeros = row(page, "zeros")
    page.get_by_role("button", name="Load zeros", exact=True).click()
    expect(zeros).to_have_attribute("data-state", "failed")
    expect(zeros).to_contain_text("✕Failed")
    expect(zeros).to_contain_text(re.compile(r"ended with exit code \d+"))
    words = zeros.locator("pre")
    expect(words).to_be_hidden()
    zeros.get_by_text("The engine’s last words").click()
    expect(words).to_be_visible()
    expect(words).to_contain_text("error loading model")
    expect(page.get_by_role("button", name="Try again to load zeros")).to_be_enabled()


def test_a_question_to_a_model_that_fails_to_load_gets_the_reason_as_its_answer(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    page = visit(daemon).page()
    expect(page.get_by_label("Model", exact=True)).to_have_value("llamacpp/zeros")
    ask(page, "hello?")
    alert = page.get_by_role("log").get_by_role("alert")
    expect(alert).to_contain_text(re.compile(r"ended with exit code \d+"))
    expect(page.get_by_role("log").get_by_role("button", name="Try again")).to_be_visible()
    finished = page.get_by_role("table", name="Finished").get_by_role("row")
    expect(finished.nth(1)).to_contain_text("✕")


def test_a_broken_file_says_what_is_wrong_and_offers_nothing_that_can_not_work(
    daemon: DaemonProcess, visit: OpenVisit
) -> None:
    page = visit(daemon).page()
    half = row(page, "half")
    expect(half).to_have_attribute("data-state", "broken")
    expect(half).to_contain_text("✕Broken")
    expect(half).to_contain_text("incomplete")
    expect(half.get_by_role("button")).to_have_count(0)
    expect(page.get_by_label("Model", exact=True)).not_to_contain_text("half")


@pytest.mark.parametrize("end", [RESET, CLOSE], ids=["reset", "closed"])
def test_an_endpoint_that_goes_down_in_mid_answer_leaves_what_came_and_an_error_below(
    scripted: Scripted, visit: OpenVisit, end: object
) -> None:
    page = visit(scripted.daemon).page()
    scripted.server.reply = Reply.stream([*chat_chunks(["Half an ", "answer"])[:2], end])
    ask(page, "go on")
    alert = page.get_by_role("log").get_by_role("alert")
    expect(alert).to_contain_text("up/m broke off its answer")
    expect(alert).not_to_contain_text("Errno")
    expect(alert).to_contain_text("Asking again may help.")
    expect(page.get_by_test_id("answer")).to_have_text("Half an answer")
    expect(page.get_by_test_id("stats")).to_be_empty()
    scripted.server.reply = Reply.stream(chat_chunks(["The whole ", "answer"]))
    page.get_by_role("log").get_by_role("button", name="Try again").click()
    expect(page.get_by_test_id("answer")).to_have_text("The whole answer")
    expect(alert).to_have_count(0)
    asked = scripted.server.requests[-1].json()["messages"]
    assert [message["content"] for message in asked] == ["go on"]  # not the half answer too


def test_an_endpoint_that_is_not_there_is_an_error_with_a_hint(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    scripted.stop_listening()
    ask(page, "anyone?")
    alert = page.get_by_role("log").get_by_role("alert")
    expect(alert).to_contain_text("up/m can't be reached")
    expect(alert).to_contain_text("base_url")


def test_a_refusal_of_the_endpoint_is_told_in_its_words(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    error = {"message": "You are out of credit", "type": "insufficient_quota", "code": None}
    scripted.server.reply = Reply.json({"error": error}, status=429)
    ask(page, "hi")
    expect(page.get_by_role("log").get_by_role("alert")).to_contain_text("You are out of credit")
    finished = page.get_by_role("table", name="Finished").get_by_role("row").nth(1)
    expect(finished).to_contain_text("429")
    expect(finished).to_contain_text("You are out of credit")


def test_a_silent_endpoint_is_told_and_named_with_its_setting(
    run_scripted: RunScripted, visit: OpenVisit
) -> None:
    scripted = run_scripted(tables="[gateway]\nsilence_s = 1\nkeepalive_s = 1\n")
    page = visit(scripted.daemon).page()
    scripted.server.reply = Reply.stream([chat_chunks(["Only this"])[0], scripted.wait()])
    ask(page, "hi")
    alert = page.get_by_role("log").get_by_role("alert")
    expect(alert).to_contain_text("sent nothing for 1 s")
    expect(alert).to_contain_text("gateway.silence_s")
    expect(page.get_by_test_id("answer")).to_have_text("Only this")


def test_a_daemon_that_dies_in_mid_answer_is_told_where_the_answer_broke_off(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    scripted.server.reply = Reply.stream([chat_chunks(["Only this"])[0], scripted.wait()])
    ask(page, "hi")
    expect(page.get_by_test_id("answer")).to_have_text("Only this")
    scripted.daemon.process.kill()
    expect(page.get_by_role("log").get_by_role("alert")).to_be_visible()
    expect(page.get_by_test_id("answer")).to_have_text("Only this")
    answered(page)
