"""A whole chat answer as one of Messages. Pure."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.errors import UpstreamFailed
from cerberus_core.gateway.wires.messages_over_chat import answer
from cerberus_core.testing.scripted import USAGE, chat_answer
from tests.gateway.messages_kit import ASKED


def body(finish: Any = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return {**chat_answer("", usage=USAGE), "choices": [choice]}


def call(arguments: Any, name: str = "f", id: str | None = "c1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(id: str = "c1", name: str = "f", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def test_a_text() -> None:
    given = chat_answer("hello")
    given["usage"] = {**USAGE, "prompt_tokens_details": {"cached_tokens": 3}}
    before = copy.deepcopy(given)
    assert answer(given, ASKED) == {
        "id": "msg_r1",
        "type": "message",
        "role": "assistant",
        "model": "up/m",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 2,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 2,
        },
    }
    assert given == before


def test_g27_no_content_beside_calls_is_no_text_block() -> None:
    for content in (None, ""):
        out = answer(body("tool_calls", content=content, tool_calls=[call('{"a":1}')]), ASKED)
        assert (out["content"], out["stop_reason"]) == ([use(a=1)], "tool_use")


def test_a10_an_answer_of_reasoning_alone_ends() -> None:
    for finish in ("stop", None):
        out = answer(body(finish, content="", tool_calls=None, reasoning_content="I think"), ASKED)
        thinking = {"type": "thinking", "thinking": "I think", "signature": ""}
        assert (out["content"], out["stop_reason"]) == ([thinking], "end_turn")


@pytest.mark.parametrize(
    ("arguments", "input"),
    [
        ("", {}),
        (None, {}),
        ("null", {}),
        ("{}", {}),
        ({"a": 1}, {"a": 1}),
        ("[]", {"INVALID_JSON": "[]"}),
        ('"text"', {"INVALID_JSON": '"text"'}),
        ('{"command": "a', {"INVALID_JSON": '{"command": "a'}),
    ],
)
def test_a06_arguments_are_an_object_whatever_the_model_wrote(arguments: Any, input: Any) -> None:
    out = answer(body("tool_calls", tool_calls=[call(arguments)]), ASKED)
    assert out["content"] == [{**use(), "input": input}]


def test_g14_a_length_stop_is_max_tokens_and_the_half_call_is_not_run() -> None:
    calls = [call('{"a":1}'), call('{"b":', id="c2")]
    out = answer(body("length", content="x", tool_calls=calls), ASKED)
    assert out["stop_reason"] == "max_tokens"
    assert out["content"] == [{"type": "text", "text": "x"}, use(a=1)]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (body("stop", content="a", tool_calls=[call("{}")]), "tool_use"),
        (body("tool_calls", content="a", tool_calls=[]), "end_turn"),
        (body("content_filter", content="a"), "refusal"),
        (body("stop", refusal="no"), "refusal"),
        (body("something new", content="a"), "end_turn"),
    ],
)
def test_why_it_ended(given: dict[str, Any], reason: str) -> None:
    assert answer(given, ASKED)["stop_reason"] == reason


def test_a_call_without_an_id_gets_one() -> None:
    out = answer(body("tool_calls", tool_calls=[call("{}", id=None), call("{}", id="")]), ASKED)
    assert [block["id"] for block in out["content"]] == ["toolu_r1_0", "toolu_r1_1"]


def test_nothing_known_of_usage_is_still_an_answer() -> None:
    out = answer({"choices": [{"message": {"content": "a"}}]}, ASKED)
    assert (out["id"], out["usage"]) == ("msg_r1", {"input_tokens": 0, "output_tokens": 0})


@pytest.mark.parametrize("bad", [{}, {"choices": []}, {"choices": [{}]}, {"choices": ["a"]}])
def test_no_message_is_the_backends_fault(bad: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed):
        answer(bad, ASKED)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["message", "content", "text", "type", "function", "name", "arguments", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(
    member=st.sampled_from(["choices", "usage", "id", "timings", "x"]),
    inside=st.sampled_from(
        ["content", "tool_calls", "reasoning", "refusal", "finish_reason", "stop_reason"]
    ),
    value=JUNK,
)
def test_no_answer_raises_anything_but_its_own_error(member: str, inside: str, value: Any) -> None:
    given = body(content="a")
    given["choices"][0]["message"][inside] = value
    given["choices"][0][inside] = value
    json.dumps(answer(given, ASKED))
    with contextlib.suppress(UpstreamFailed):
        json.dumps(answer(given | {member: value}, ASKED))
