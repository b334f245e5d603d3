"""Tool calls that stand in a text. Pure."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.gateway.wires.tool_text import MAX_HELD, Reader, WrittenCall, read

TOOLS = frozenset({"read", "reader", "ls"})
BARE = '{"name": "read", "arguments": {"path": "a.txt"}}'
CALL = WrittenCall("read", '{"path":"a.txt"}')


def letter_by_letter(text: str) -> tuple[str, list[WrittenCall]]:
    """As `read`, but for spaces before a call, which have been shown by then."""
    reader = Reader(TOOLS)
    shown = "".join(reader.feed(letter) for letter in text)
    held, calls = reader.end()
    return (shown.rstrip() if calls else shown + held), calls


CALLS = {
    "bare": BARE,
    "spaces around": f"\n  {BARE}\n\n",
    "over lines": json.dumps(json.loads(BARE), indent=2),
    "parameters": '{"name": "read", "parameters": {"path": "a.txt"}}',
    "input": '{"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a.txt"}}',
    "arguments first": '{"arguments": {"path": "a.txt"}, "name": "read"}',
    "arguments as text": '{"name": "read", "arguments": "{\\"path\\": \\"a.txt\\"}"}',
    "openai": f'{{"type": "function", "function": {BARE}}}',
    "function's name": '{"function": "read", "arguments": {"path": "a.txt"}}',
    "a list": f"[{BARE}]",
    "tool_calls": f'{{"tool_calls": [{{"id": "x", "function": {BARE}}}]}}',
    "fence": f"```json\n{BARE}\n```",
    "plain fence": f"```\n{BARE}\n```\n",
    "fence of tools": f"```tool_call\n{BARE}```",
    "open fence": f"```json\n{BARE}\n",
    "tags": f"<tool_call>\n{BARE}\n</tool_call>",
    "open tags": f"<tool_call>{BARE}",
    "half closed": f"<tool_call>{BARE}</tool_",
}


@pytest.mark.parametrize("text", CALLS.values(), ids=CALLS.keys())
def test_a_call_is_read_whole_and_letter_by_letter(text: str) -> None:
    assert read(text, TOOLS) == ("", [CALL])
    assert letter_by_letter(text) == ("", [CALL])
    before = "I read it now.\n\n" + text
    assert read(before, TOOLS) == letter_by_letter(before) == ("I read it now.", [CALL])


@pytest.mark.parametrize(
    "text",
    [
        f"{BARE}\n{BARE}",
        f"```json\n{BARE}\n```\n\n```json\n{BARE}\n```",
        f"```json\n{BARE}\n{BARE}\n```",
        f"<tool_call>{BARE}</tool_call><tool_call>{BARE}</tool_call>",
        f"[{BARE}, {BARE}]",
    ],
)
def test_a12_two_calls_are_two_and_no_sign_of_them_is_shown(text: str) -> None:
    assert read(text, TOOLS) == letter_by_letter(text) == ("", [CALL, CALL])


TEXTS = {
    "no call": "hello {world}",
    "in mid line": f"Use {BARE}",
    "words after it": f"{BARE}\nis how to call it.",
    "words after a fence": f"```json\n{BARE}\n```\nThat is how.",
    "another language": f"```python\n{BARE}\n```",
    "code with a call in it": f"```python\nx = 1\n{BARE}\n```\n",
    "code of tags": f"```xml\n<tool_call>{BARE}</tool_call>\n```",
    "unknown tool": '{"name": "rm", "arguments": {}}',
    "no arguments": '{"name": "read"}',
    "odd arguments": '{"name": "read", "arguments": [1]}',
    "data": '{"users": [{"name": "read"}]}',
    "data beginning as a call": '{"name": "read", "age": 7}',
    "a list of other things": f'[{BARE}, {{"name": "x"}}]',
    "cut off": '{"name": "read", "arguments": {"path": "a',
    "an empty fence": "```json\n```\n",
    "a second that is not there": f"{BARE}\n```json\n",
    "a sign that is left over": f"{BARE}\n<tool",
    "a second that is cut off": f"{BARE}\n{BARE[:-3]}",
    "broken": '{"name": "read", "arguments": {path: 1}}',
    "c": "{\n  int x = 1;\n}",
    "markdown": "[read](a.txt)\n`read`\n<b>x</b>\n``two``\n",
    "html": "<tool>x</tool>",
    "empty": "",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a11_what_explains_or_is_no_call_stays_text(text: str) -> None:
    assert read(text, TOOLS) == (text, [])
    assert letter_by_letter(text) == (text, [])


def test_after_an_explanation_a_call_at_the_end_is_one() -> None:
    text = f"Call it so:\n```json\n{BARE}\n```\nNow I do:\n{BARE}"
    assert read(text, TOOLS) == (text[: -len(BARE) - 1], [CALL])
    empty = f"```json\n```\n{BARE}"
    assert read(empty, TOOLS) == ("```json\n```", [CALL])
    code = f"```python\nx = {{}}\n```\n{BARE}"
    assert read(code, TOOLS) == (code[: -len(BARE) - 1], [CALL])


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("{", "{"),
        ('{"na', '{"na'),
        ('{"nb', ""),
        ('{"name": "re', '{"name": "re'),
        ('{"name": "rm', ""),
        ('{"name": "read", "x', '{"name": "read", "x'),
        ('{"name": 5', ""),
        ("{ int", ""),
        ("[1", ""),
        ("``", "``"),
        ("```js", "```js"),
        ("```jsx", ""),
        ("```json\nx", ""),
        ("<tool_", "<tool_"),
        ("<table", ""),
        ("a {", ""),
        ("a\n{", "{"),
    ],
)
def test_text_is_held_back_only_while_it_may_become_a_call(text: str, held: str) -> None:
    reader = Reader(TOOLS)
    shown = "".join(reader.feed(letter) for letter in text)
    assert shown == text.removesuffix(held)
    assert reader.end() == (held, [])


def test_a_call_as_long_as_a_file_is_read_in_time_and_a_longer_one_is_text() -> None:
    begin = '{"name": "read", "arguments": {"path": "'
    words = ["four"] * 50_000
    reader, began = Reader(TOOLS), time.process_time()
    assert "".join(map(reader.feed, [begin, *words, '"}}'])) == ""
    [call] = reader.end()[1]
    assert json.loads(call.arguments) == {"path": "four" * 50_000}
    assert time.process_time() - began < 2.0
    reader = Reader(TOOLS)
    shown = reader.feed(begin) + reader.feed("x" * MAX_HELD) + reader.feed("more")
    assert shown == begin + "x" * MAX_HELD + "more"


PIECES = st.lists(
    st.sampled_from(
        [
            BARE, "```json\n", "```", "\n", " ", "<tool_call>", "</tool_call>", "{", "}", '"',
            "\\", "[", "]", "text", '{"name": "read", ', '"arguments": ', "{}", ",", "é", "`",
        ]
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=200)
@given(pieces=PIECES, cuts=st.lists(st.integers(0, 200), max_size=5))
def test_any_cut_gives_the_same_and_no_text_is_lost(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    expected: tuple[str, list[Any]] = read(text, TOOLS)
    places = sorted(min(cut, len(text)) for cut in cuts)
    reader = Reader(TOOLS)
    shown = "".join(
        reader.feed(text[a:b]) for a, b in zip([0, *places], [*places, len(text)], strict=True)
    )
    held, calls = reader.end()
    assert calls == expected[1]
    assert (shown.rstrip() if calls else shown + held) == expected[0]
    assert text.startswith(expected[0])
    assert calls or expected[0] == text
