"""Without a mouse, with an input method, and for who wants nothing to move."""

import pytest
from playwright.sync_api import expect

from cerberus_core.testing.scripted import Reply, chat_chunks
from tests.e2e.browser.conftest import OpenVisit, Scripted, answered, ask, until

pytestmark = pytest.mark.timeout(180)


def test_enter_sends_at_a_desk_and_shift_enter_does_not(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    box = page.get_by_label("Message")
    box.press_sequentially("one")
    box.press("Shift+Enter")
    box.press_sequentially("two")
    expect(box).to_have_value("one\ntwo")
    box.press("Enter")
    expect(page.get_by_test_id("answer")).to_contain_text("two")
    expect(box).to_have_value("")
    expect(box).to_be_focused()


def test_enter_that_takes_a_composed_word_sends_nothing(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    box = page.get_by_label("Message")
    box.focus()
    keys = page.context.new_cdp_session(page)
    keys.send("Input.imeSetComposition", {"text": "にほ", "selectionStart": 2, "selectionEnd": 2})
    expect(box).to_have_value("にほ")
    # The Enter that an input method keeps for itself, as a page hears of it.
    box.dispatch_event("keydown", {"key": "Enter", "isComposing": True, "bubbles": True})
    # Safari ends the composition first, and tells of this Enter by its number alone.
    box.dispatch_event("keydown", {"key": "Enter", "keyCode": 229, "bubbles": True})
    expect(page.get_by_test_id("answer")).to_have_count(0)
    keys.send("Input.insertText", {"text": "日本"})
    expect(box).to_have_value("日本")
    box.press("Enter")
    expect(page.get_by_test_id("answer")).to_have_text("日本")


def test_send_and_stop_by_keyboard_leave_the_focus_in_the_message(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    scripted.server.reply = Reply.stream([chat_chunks(["On and on"])[0], scripted.wait()])
    box = page.get_by_label("Message")
    box.fill("hi")
    page.get_by_role("button", name="Send").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("answer")).to_have_text("On and on")
    expect(box).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Stop")).to_be_focused()
    page.keyboard.press("Space")
    answered(page)
    expect(page.get_by_text("Stopped")).to_be_visible()
    expect(box).to_be_focused()


def test_each_control_of_a_conversation_is_reached_by_tab_and_shows_it(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    scripted.server.reply = Reply.stream(chat_chunks(["```py\nx = 1\n```"]))
    ask(page, "code, please")
    answered(page)
    page.get_by_label("Model", exact=True).focus()
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => { const e = document.activeElement;
              return [e.ariaLabel || e.tagName, getComputedStyle(e).outlineStyle] }"""
        )
        assert outline != "none", name
        reached.append(name)
    assert reached == ["New chat", "Conversation", "Copy code", "PRE", "Copy", "Message"]


def test_a_reader_hears_that_the_answer_is_there_and_not_each_word_of_it(
    scripted: Scripted, visit: OpenVisit
) -> None:
    page = visit(scripted.daemon).page()
    held = scripted.wait()
    events = chat_chunks(["One ", "two"])
    scripted.server.reply = Reply.stream([events[0], held, *events[1:]])
    said = page.get_by_role("status").filter(has_text="The answer is complete")
    ask(page, "hi")
    expect(page.get_by_test_id("answer")).to_have_text("One")
    expect(page.get_by_role("log")).to_have_attribute("aria-live", "off")
    expect(said).to_have_count(0)
    scripted.go(held)
    expect(said).to_have_count(1)


def test_nothing_moves_for_who_asked_for_less_motion(scripted: Scripted, visit: OpenVisit) -> None:
    page = visit(scripted.daemon).page()
    moving = """() => document.getAnimations().filter(
      a => a.playState === "running" && a.effect.getComputedTiming().endTime > 100).length"""
    scripted.server.reply = Reply.stream([scripted.wait()])
    ask(page, "hi")
    expect(page.get_by_text("Waiting for the first token")).to_be_visible()
    assert page.evaluate(moving) > 0
    page.emulate_media(reduced_motion="reduce")
    until(lambda: page.evaluate(moving) == 0)
