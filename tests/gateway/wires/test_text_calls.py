"""Tool calls that stand in the text of a chat answer, told as calls. Pure."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import OpenAIStream, UpstreamError
from cerberus_core.gateway.wires.text_calls import TextCallsStream, offered, whole
from cerberus_core.testing.scripted import chunk
from cerberus_core.testing.scripted import sse as event
from tests.gateway.messages_kit import call, chat_stream

TOOLS = frozenset({"read", "list"})
WRITTEN = '{"name": "read", "arguments": {"path": "a"}}'
MADE = {"name": "read", "arguments": '{"path":"a"}'}


def stream_of(facts: Facts) -> TextCallsStream:
    inner = OpenAIStream(facts, public_model=None, wants_usage=True, now=lambda: 1.0)
    return TextCallsStream(inner, facts, tools=TOOLS, answer_id="r1", now=lambda: 1.0)


def translated(parts: Iterable[bytes]) -> tuple[list[dict[str, Any]], Facts]:
    facts = Facts()
    stream = stream_of(facts)
    out = b"".join(stream.feed(part) for part in parts)
    assert stream.finished
    out += stream.tail({})
    datas = [data for block in sse.blocks(out) if (data := sse.data_of(block))]
    assert datas.pop() == b"[DONE]"
    return [json.loads(data) for data in datas], facts


def told(events: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]], str | None]:
    """(text, calls, how it ended); nothing follows the end."""
    text, calls, finish = "", [], None
    for one in (choice for e in events for choice in e["choices"]):
        assert finish is None
        text += one["delta"].get("content") or ""
        calls += one["delta"].get("tool_calls") or []
        finish = one["finish_reason"]
    return text, calls, finish


def words(text: str, finish: str = "stop") -> list[bytes]:
    return chat_stream(*({"content": text[at : at + 4]} for at in range(0, len(text), 4)),
                       finish=finish)  # fmt: skip


def test_a_written_call_is_told_as_a_call_and_every_token_counted() -> None:
    events, facts = translated(words(f"I look.\n{WRITTEN}\n"))
    text, [made], finish = told(events)
    assert (text, made["function"], finish) == ("I look.\n", MADE, "tool_calls")
    assert (made["index"], made["id"], made["type"]) == (0, "call_r1_0", "function")
    assert events[-1]["usage"]["completion_tokens"] == facts.completion_tokens
    assert facts.pieces == -(-len(f"I look.\n{WRITTEN}\n") // 4)
    assert facts.first_at == 1.0


def test_a11_a_call_after_words_without_its_opening_tag_is_one() -> None:
    words_before = "I look for it.\n\n"
    text, [made], finish = told(translated(words(f"{words_before}{WRITTEN}\n</tool_call>"))[0])
    assert (text, made["function"], finish) == (words_before, MADE, "tool_calls")
    explained = f"Write:\n```xml\n{WRITTEN}\n</tool_call>\n```\nso."
    assert told(translated(words(explained))[0]) == (explained, [], "stop")


def test_a12_two_calls_a_letter_at_a_time_are_two_and_no_tag_is_shown() -> None:
    both = f"<tool_call>\n{WRITTEN}\n</tool_call>\n" * 2
    text, made, finish = told(translated(chat_stream(*({"content": c} for c in both)))[0])
    assert (text, [call["function"] for call in made], finish) == ("", [MADE] * 2, "tool_calls")
    assert len({call["id"] for call in made}) == 2


def test_a_call_that_was_cut_off_for_its_length_stays_cut_off() -> None:
    assert told(translated(words(WRITTEN, finish="length"))[0])[2] == "length"
    text, calls, finish = told(translated(words(WRITTEN[:-6], finish="length"))[0])
    assert (text, calls, finish) == (WRITTEN[:-6], [], "length")


def test_beside_real_calls_the_text_stays_text() -> None:
    parts = chat_stream({"content": WRITTEN}, call("{}", name="ls", id="x"), finish="tool_calls")
    text, calls, finish = told(translated(parts)[0])
    assert (text, [made["id"] for made in calls], finish) == (WRITTEN, ["x"], "tool_calls")


def test_each_choice_is_read_for_itself() -> None:
    def of(index: int, text: str) -> dict[str, Any]:
        return {"index": index, "delta": {"content": text}, "finish_reason": None}

    both = chunk()
    both["choices"] = [of(0, WRITTEN[:9]), of(1, "Words.")]
    rest = chunk()
    rest["choices"] = [of(0, WRITTEN[9:]), {**of(1, ""), "finish_reason": "stop"}]
    end = chunk()
    end["choices"] = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    events, _ = translated([event(both), event(rest), event(end)])
    ends = {c["index"]: c["finish_reason"] for e in events for c in e["choices"]
            if c["finish_reason"]}  # fmt: skip
    assert ends == {0: "tool_calls", 1: "stop"}


def answer(content: Any, **more: Any) -> bytes:
    message = {"role": "assistant", "content": content, **more}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def test_a_whole_answer() -> None:
    data = answer(f"Now.\n```json\n[{WRITTEN}, {WRITTEN}]\n```")
    [choice] = json.loads(whole(data, TOOLS, "r1"))["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Now."
    calls = choice["message"]["tool_calls"]
    assert [made["function"] for made in calls] == [MADE, MADE]
    assert [made["id"] for made in calls] == ["call_r1_0", "call_r1_1"]


@pytest.mark.parametrize(
    "data",
    [
        answer("a text"),
        answer(None),
        answer(WRITTEN, tool_calls=[{"id": "x"}]),
        answer(WRITTEN.replace("read", "erase")),
        b"no JSON",
        b"\xff",
        b"[]",
        b'{"choices": 1}',
        b'{"choices": [1, {}, {"message": 2}]}',
    ],
)
def test_where_there_is_no_call_a_whole_answer_keeps_its_bytes(data: bytes) -> None:
    assert whole(data, TOOLS, "r1") is data


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, set()),
        ({"tools": None}, set()),
        ({"tools": [1, {}, {"function": 2}, {"function": {"name": 3}}]}, set()),
        ({"tools": [{"function": {"name": "a"}}]}, {"a"}),
        ({"tools": [{"function": {"name": "a"}}], "tool_choice": "none"}, set()),
    ],
)
def test_the_tools_that_are_offered(fields: dict[str, Any], names: set[str]) -> None:
    assert offered(fields) == names


pieces = st.lists(
    st.sampled_from([WRITTEN, "\n", "word ", "```json\n", "```", '{"name": ', "<tool_call>", "é"]),
    max_size=6,
)


@settings(max_examples=60)
@given(pieces=pieces, cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_any_chunking_tells_the_same(pieces: list[str], cuts: list[int]) -> None:
    parts = words("".join(pieces))
    expected = told(translated(parts)[0])
    raw = b"".join(parts)
    places = sorted(min(cut, len(raw)) for cut in cuts)
    cut_up = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert told(translated(cut_up)[0]) == expected
    assert bool(expected[1]) == (expected[2] == "tool_calls")
    if not expected[1]:
        assert expected[0] == "".join(pieces)


KEYS = ["choices", "delta", "index", "content", "finish_reason", "tool_calls", "message", "error"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([WRITTEN, "a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=15,
)


@settings(max_examples=150)
@given(st.lists(values | st.builds(lambda c: {"choices": [c]}, values), max_size=4))
def test_no_event_makes_it_raise_anything_but_the_streams_own_error(events: list[Any]) -> None:
    stream = stream_of(Facts())
    try:
        for value in events:
            stream.feed(event(value))
        stream.tail({})
    except UpstreamError:
        pass
    for value in events:
        whole(json.dumps(value).encode(), TOOLS, "r1")
