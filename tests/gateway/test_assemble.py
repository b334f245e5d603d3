"""A stream put together is the whole answer. Pure."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.gateway.assemble import MAX_PARTS, Assembler, TooManyParts
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.sse import TooLong
from cerberus_core.gateway.stream import UpstreamError
from cerberus_core.testing.scripted import DONE, USAGE, chat_chunks, chunk, sse


def whole(*parts: bytes, facts: Facts | None = None) -> dict[str, Any]:
    assembler = Assembler(facts or Facts(), now=lambda: 1.0)
    for part in parts:
        assembler.feed(part)
    assert assembler.done or assembler.complete
    answer: dict[str, Any] = json.loads(assembler.answer())
    return answer


@given(st.lists(st.text(min_size=1, max_size=5), max_size=8), st.integers(1, 50))
def test_text_usage_and_names_come_together_however_it_is_cut(pieces: list[str], size: int) -> None:
    stream = b"".join(chat_chunks(pieces))
    facts = Facts()
    answer = whole(*[stream[i : i + size] for i in range(0, len(stream), size)], facts=facts)
    assert answer["object"] == "chat.completion"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(pieces)},
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"] == USAGE
    assert (facts.completion_tokens, facts.pieces) == (2, len(pieces))
    assert facts.first_at == (1.0 if pieces else None)


def test_tool_calls_are_joined_by_index_and_content_is_null() -> None:
    def call(index: int, **function: str) -> dict[str, Any]:
        return {"index": index, "function": function}

    deltas = [
        {"role": "assistant", "content": None},
        {"tool_calls": [{"id": "a", "type": "function", **call(0, name="read", arguments="")}]},
        {"tool_calls": [call(0, arguments='{"p":')]},
        {"tool_calls": [call(0, arguments="1}")]},
        {"tool_calls": [{"id": "b", **call(1, name="ls", arguments="{}")}]},
    ]
    answer = whole(*[sse(chunk(d)) for d in deltas], sse(chunk(finish="tool_calls")), DONE)
    message = answer["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"type": "function", "function": {"name": "read", "arguments": '{"p":1}'}, "id": "a"},
        {"type": "function", "function": {"name": "ls", "arguments": "{}"}, "id": "b"},
    ]
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_calls_that_all_have_the_number_0_are_told_apart_by_their_ids() -> None:
    calls = [
        {"index": 0, "id": "a", "function": {"name": "read", "arguments": '{"p":1}'}},
        {"index": 0, "id": "b", "function": {"name": "read", "arguments": '{"p":2}'}},
    ]
    answer = whole(
        *[sse(chunk({"tool_calls": [call]})) for call in calls],
        sse(chunk(finish="tool_calls")),
        DONE,
    )
    found = answer["choices"][0]["message"]["tool_calls"]
    assert [(one["id"], one["function"]["arguments"]) for one in found] == [
        ("a", '{"p":1}'),
        ("b", '{"p":2}'),
    ]


def test_choices_reasoning_and_logprobs_keep_apart() -> None:
    def part(index: int, delta: dict[str, Any], logprob: float) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": {"content": [{"logprob": logprob}]}}
        return sse({**chunk(), "choices": [choice]})

    answer = whole(
        part(1, {"content": "b"}, -1.0),
        part(0, {"reasoning_content": "hm"}, -2.0),
        part(0, {"content": "a"}, -3.0),
        sse({**chunk(), "choices": [{"index": i, "finish_reason": "stop"} for i in (0, 1)]}),
    )
    first, second = answer["choices"]
    assert first["message"] == {"role": "assistant", "content": "a", "reasoning_content": "hm"}
    assert first["logprobs"] == {"content": [{"logprob": -2.0}, {"logprob": -3.0}]}
    assert second["message"]["content"] == "b"


def test_plain_completions_join_their_text() -> None:
    def part(text: str, finish: str | None = None) -> bytes:
        choice = {"index": 0, "text": text, "finish_reason": finish}
        return sse({"object": "text_completion", "choices": [choice]})

    answer = whole(part("one "), part("two"), part("", "length"), DONE)
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": "one two", "finish_reason": "length"}]


def test_a_whole_message_inside_a_stream_takes_the_place_of_the_pieces() -> None:
    message = {"content": "whole", "role": ""}
    answer = whole(
        sse(chunk({"content": "pie"})),
        sse({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}),
    )
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "whole"}


def test_half_a_million_pieces_take_no_noticeable_time() -> None:
    pieces = sse(chunk({"content": "x" * 40})) * 1000
    logprobs = sse({"choices": [{"logprobs": {"content": [{"logprob": -1.0}]}}]}) * 1000
    began = time.process_time()
    answer = whole(*[pieces] * 300, *[logprobs] * 30, DONE)
    assert time.process_time() - began < 10.0
    [choice] = answer["choices"]
    assert choice["message"]["content"] == "x" * 40 * 300_000
    assert len(choice["logprobs"]["content"]) == 30_000


@pytest.mark.parametrize("kind", ["choices", "calls"])
def test_more_parts_than_any_answer_has_are_refused(kind: str) -> None:
    assembler = Assembler(Facts(), now=lambda: 1.0)
    calls = [{"function": {"name": "x"}}] * (MAX_PARTS if kind == "calls" else 0)
    choices = [{"index": n} for n in range(MAX_PARTS if kind == "choices" else 0)]
    assembler.feed(
        sse({"choices": [*choices, *[{"delta": {"tool_calls": calls[1:]}}][: len(calls)]]})
    )
    with pytest.raises(TooManyParts):
        assembler.feed(sse({"choices": [{"index": -1}]}))


def test_an_error_in_the_stream_is_raised() -> None:
    assembler = Assembler(Facts(), now=lambda: 1.0)
    with pytest.raises(UpstreamError, match="too long"):
        assembler.feed(sse({"error": {"message": "too long"}}))


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["choices", "delta", "tool_calls", "index", "usage", "function", "text",
                         "message", "error", "timings", "logprobs", "finish_reason", "role"]),
        inner, max_size=5,
    ),
    max_leaves=15,
))  # fmt: skip
def test_no_event_makes_it_raise_anything_but_its_own_errors(event: Any) -> None:
    assembler = Assembler(Facts(), now=lambda: 1.0)
    try:
        assembler.feed(sse(event))
        assembler.answer()
    except (UpstreamError, TooLong, TooManyParts):
        pass
