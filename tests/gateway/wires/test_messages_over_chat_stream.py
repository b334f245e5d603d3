"""Chat chunks as Messages events. Pure."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError
from cerberus_core.gateway.wires.messages_over_chat import Asked, MessagesOverChat, answer
from cerberus_core.gateway.wires.messages_over_chat.calls import MAX_CALLS
from cerberus_core.testing.scripted import DONE, USAGE, chunk
from cerberus_core.testing.scripted import sse as event
from tests.gateway.messages_kit import (
    ASKED,
    EXTRA,
    call,
    chat_stream,
    events_of,
    message_of,
    translated,
)

TEXT = 'a\u2028b\x85c\u2029d 北京 é 😀 "quoted" \\ \n'


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_text_is_one_block_with_usage_and_figures_at_the_end() -> None:
    usage = {
        "prompt_tokens": 32,
        "completion_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 30},
    }
    events, facts = translated(chat_stream({"content": "I"}, {"content": "'m"}, usage=usage))
    assert kinds(events) == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert message_of(events) == {
        "id": "msg_r1",
        "type": "message",
        "role": "assistant",
        "model": "up/m",
        "content": [{"type": "text", "text": "I'm"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 2,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 30,
            "output_tokens": 6,
            "cerberus": EXTRA,
        },
    }
    assert (facts.prompt_tokens, facts.completion_tokens, facts.cached_tokens) == (32, 6, 30)
    assert (facts.first_at, facts.last_at, facts.pieces) == (1.0, 1.0, 2)


def test_g01_a_character_cut_at_every_byte_arrives_whole() -> None:
    raw = b"".join(chat_stream({"content": TEXT}))
    for cut in range(len(raw)):
        events, _ = translated([raw[:cut], raw[cut:]])
        assert message_of(events)["content"] == [{"type": "text", "text": TEXT}]
    events, _ = translated([raw[i : i + 1] for i in range(len(raw))])
    assert message_of(events)["content"] == [{"type": "text", "text": TEXT}]


@pytest.mark.parametrize("place", [0, 2, 4])
def test_g09_a_chunk_with_no_choices_ends_nothing(place: int) -> None:
    parts = chat_stream({"content": "a"}, {"content": "b"}, usage=None)
    parts.insert(place, event({**chunk(), "choices": [], "usage": USAGE}))
    events, facts = translated(parts)
    message = message_of(events)
    assert message["content"] == [{"type": "text", "text": "ab"}]
    assert (message["stop_reason"], message["usage"]["output_tokens"]) == ("end_turn", 2)
    assert facts.completion_tokens == 2


@pytest.mark.parametrize("nothing", [[], None])
def test_g10_no_tool_calls_beside_text_are_only_text(nothing: Any) -> None:
    events, _ = translated(
        chat_stream(*({"content": letter, "tool_calls": nothing} for letter in "xyz"))
    )
    assert message_of(events)["content"] == [{"type": "text", "text": "xyz"}]
    assert kinds(events).count("content_block_start") == 1


def test_g11_arguments_that_come_whole_are_the_same_streamed_and_not() -> None:
    arguments = '{"path": "a.txt"}'
    parts = chat_stream(call(arguments, name="read", id="call_1"), finish="tool_calls")
    events, _ = translated(parts)
    assert any(e.get("delta", {}).get("partial_json") == arguments for e in events)
    streamed = message_of(events)
    function = {"name": "read", "arguments": arguments}
    body = {
        "id": "chatcmpl-1",
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {"tool_calls": [{"id": "call_1", "function": function}]},
            }
        ],
    }
    whole = answer(body, ASKED)
    assert whole["stop_reason"] == streamed["stop_reason"] == "tool_use"
    block = {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a.txt"}}
    assert whole["content"] == [block]
    assert streamed["content"] == [{**block, "input": arguments}]


@pytest.mark.parametrize(
    "given",
    [
        [
            call('{"a":1}', name="f", id="x", index=None),
            call('{"b":2}', name="g", id="y", index=None),
        ],
        [
            call({"a": 1}, name="f", id="x", index=None),
            call({"b": 2}, name="g", id="y", index=None),
        ],
        [call({"a": 1}, name="f", index=None), call({"b": 2}, name="g", index=None)],
        [call(None, name="f", index=None), call({"b": 2}, name="g", index=None)],
        [
            call("", name="f", id="x"),
            call('{"a"', index=None),
            call(":1}", index=None),
            call('{"b":2}', name="g", id="y", index=1),
        ],
    ],
    ids=["ids", "objects", "neither", "no arguments", "pieces"],
)  # fmt: skip
def test_g12_calls_without_an_index_are_told_apart(given: list[dict[str, Any]]) -> None:
    events, _ = translated(chat_stream(*given, finish="tool_calls"))
    calls = message_of(events)["content"]
    assert [(c["name"], json.loads(c["input"])) for c in calls][1] == ("g", {"b": 2})
    assert json.loads(calls[0]["input"]) in ({"a": 1}, {})
    assert calls[0]["name"] == "f"
    assert len({c["id"] for c in calls}) == len(calls) == 2


def test_g13_calls_that_all_carry_index_0_stay_apart() -> None:
    given = [call('{"a":1}', name="f", id="x"), call('{"b":2}', name="f", id="y")]
    events, _ = translated(chat_stream(*given, finish="tool_calls"))
    assert [(c["id"], c["input"]) for c in message_of(events)["content"]] == [
        ("x", '{"a":1}'),
        ("y", '{"b":2}'),
    ]
    nameless = [call('{"a":1}', name="f"), call('{"b":2}', name="f")]
    events, _ = translated(chat_stream(*nameless, finish="tool_calls"))
    assert [c["input"] for c in message_of(events)["content"]] == ['{"a":1}', '{"b":2}']
    bare = [call("", name="f", id="x"), call('{"b":2}', name="f", id="y")]
    events, _ = translated(chat_stream(*bare, finish="tool_calls"))
    assert [c["input"] for c in message_of(events)["content"]] == ["{}", '{"b":2}']


def test_calls_whose_pieces_come_mixed_are_put_together_by_their_index() -> None:
    given = [
        call('{"a":', name="f", id="x", index=0),
        call('{"b":', name="g", id="y", index=1),
        call("1}", index=0),
        call("2}", index=1),
    ]
    events, _ = translated(chat_stream(*given, finish="tool_calls"))
    calls = message_of(events)["content"]
    assert [(c["name"], c["input"]) for c in calls] == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_a_block_ends_before_the_next_begins() -> None:
    events, _ = translated(
        chat_stream(
            {"reasoning_content": "hm"},
            {"content": "I look."},
            call('{"a":', name="f", id="x", index=0),
            call("1}", index=0),
            call("", name="g", id="y", index=1),
            finish="stop",
        )
    )
    places = [
        (e["type"].removeprefix("content_block_"), e["index"]) for e in events if "index" in e
    ]
    assert [place for place in places if place[0] != "delta"] == [
        (what, index) for index in range(4) for what in ("start", "stop")
    ]
    message = message_of(events)
    assert message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "x", "name": "f", "input": '{"a":1}'},
        {"type": "tool_use", "id": "y", "name": "g", "input": "{}"},
    ]
    assert message["stop_reason"] == "tool_use", "though the backend said stop"


def test_g14_a_length_stop_is_max_tokens_though_there_are_calls() -> None:
    half = [call('{"a":1}', name="f", id="x"), call('{"b":', name="g", id="y", index=1)]
    events, _ = translated(chat_stream(*half, finish="length"))
    message = message_of(events)
    assert message["stop_reason"] == "max_tokens"
    assert [c["input"] for c in message["content"]] == ['{"a":1}', '{"b":']


def test_a_stop_sequence_is_told_where_the_backend_tells_it() -> None:
    told = {**chunk(finish="stop")}
    told["choices"][0]["stop_reason"] = "###"
    parts = [event(chunk({"content": "a"})), event(told), DONE]
    events, _ = translated(parts, Asked(model="m", stop_sequences=("###",)))
    last = events[-2]["delta"]
    assert last == {"stop_reason": "stop_sequence", "stop_sequence": "###"}
    events, _ = translated(parts)
    assert events[-2]["delta"]["stop_reason"] == "end_turn", "nobody asked for it"


@pytest.mark.parametrize(
    "deltas",
    [
        [{"reasoning_content": "a"}, {"reasoning_content": "b"}, {"content": "c"}],
        [{"reasoning": "a"}, {"reasoning": "b"}, {"content": "c"}],
        [{"reasoning_content": "a", "content": ""}, {"reasoning": "b", "content": "c"}],
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "ab"}]}]},
            {"content": [{"type": "text", "text": "c"}]},
        ],
    ],
)
def test_reasoning_of_every_kind_is_a_thinking_block(deltas: list[dict[str, Any]]) -> None:
    events, _ = translated(chat_stream(*deltas))
    assert message_of(events)["content"] == [
        {"type": "thinking", "thinking": "ab", "signature": ""},
        {"type": "text", "text": "c"},
    ]


def test_a09_an_answer_only_in_the_reasoning_is_shown_as_such_and_counted() -> None:
    events, facts = translated(chat_stream({"reasoning_content": "a"}, {"reasoning_content": "b"}))
    message = message_of(events)
    assert message["content"] == [{"type": "thinking", "thinking": "ab", "signature": ""}]
    assert facts.pieces == 2
    events, _ = translated(chat_stream())
    assert message_of(events)["content"] == []


def test_a_refusal_is_text_and_a_reason_of_its_own() -> None:
    events, _ = translated(chat_stream({"refusal": "I can't."}))
    message = message_of(events)
    assert message["content"] == [{"type": "text", "text": "I can't."}]
    assert message["stop_reason"] == "refusal"


def test_g06_an_error_follows_what_came_before_it_and_nothing_ends_well() -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 1.0)
    good = event(chunk({"content": "a"}))
    with pytest.raises(UpstreamError) as caught:
        stream.feed(good + b'data: {"error": {"message": "out of memory"}}\n\n' + good)
    assert json.loads(caught.value.payload) == {"message": "out of memory"}
    assert kinds(events_of(stream.before_error)) == [
        "message_start",
        "content_block_start",
        "content_block_delta",
    ]
    assert not stream.finished


def test_g05_a_call_that_is_cut_off_is_not_finished() -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 1.0)
    out = stream.feed(event(chunk(call('{"path": "a', name="read", id="x"))))
    assert kinds(events_of(out))[-1] == "content_block_delta"
    assert not stream.finished
    assert not stream.done


def test_nothing_is_sent_twice_or_after_the_end() -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 1.0)
    out = b"".join(stream.feed(part) for part in chat_stream({"content": "a"}))
    assert stream.done
    assert stream.feed(event(chunk({"content": "late"}))) == b""
    assert kinds(events_of(out + stream.tail({}))).count("message_stop") == 1


def test_the_backends_own_keep_alive_becomes_a_ping() -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 1.0)
    assert events_of(stream.feed(b": processing\n\n")) == [{"type": "ping"}]


def test_too_many_calls_are_an_error_of_the_backend() -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 1.0)
    calls = [event(chunk(call("{}", name="f", id=f"c{number}"))) for number in range(MAX_CALLS)]
    stream.feed(b"".join(calls))
    with pytest.raises(UpstreamError, match="tool calls"):
        stream.feed(event(chunk(call("{}", name="f", id="one more"))))


@pytest.mark.parametrize("tool_calls", [[], None])
def test_g10_no_calls_beside_text_do_not_slow_it_down(tool_calls: Any) -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 2.0)
    stream.feed(event(chunk({"content": "a"})))
    assert stream.quick(event(chunk({"content": "b", "tool_calls": tool_calls}))) is not None


def test_text_between_calls_ends_the_one_that_is_complete_and_nothing_follows_the_finish() -> None:
    given = [call('{"a":1}', name="f", id="x"), {"content": "and"}]
    events, _ = translated(chat_stream(*given, finish="tool_calls"))
    places = [(e["type"], e["index"]) for e in events if "index" in e]
    assert places.index(("content_block_stop", 0)) < places.index(("content_block_start", 1))
    late = [*chat_stream({"content": "a"})[:-1], event(chunk({"content": "late"})), DONE]
    events, _ = translated(late)
    assert message_of(events)["content"] == [{"type": "text", "text": "a"}]


def test_other_choices_than_the_first_are_passed_over() -> None:
    other = {**chunk(), "choices": [{"index": 1, "delta": {"content": "b"}}]}
    parts = chat_stream({"content": "a"}, {"content": "c"})
    parts.insert(2, event(other))
    events, _ = translated(parts)
    assert message_of(events)["content"] == [{"type": "text", "text": "ac"}]


def test_quick_changes_nothing_until_it_has_passed() -> None:
    facts = Facts()
    stream = MessagesOverChat(facts, ASKED, now=lambda: 2.0)
    first, second = event(chunk({"content": "a"})), event(chunk({"content": "b"}))
    assert stream.quick(first) is None, "the block must begin"
    stream.feed(first)
    out = stream.quick(second + second)
    assert out is not None
    assert facts.pieces == 1
    assert [e["delta"]["text"] for e in events_of(out)] == ["b", "b"]
    assert stream.feed(second + second) == out
    assert facts.pieces == 3


@pytest.mark.parametrize(
    "more",
    [
        chunk({"content": "b"}, finish="stop"),
        chunk({"content": "b", "tool_calls": [{"id": "x", "function": {"name": "f"}}]}),
        chunk({"content": "b", "reasoning_content": "c"}),
        chunk({"content": "b", "refusal": "no"}),
        chunk({"content": "b"}, usage=USAGE),
        chunk({"content": "b"}, timings={"cache_n": 1}),
        chunk({"content": "b"}, error="no"),
        {**chunk(), "choices": []},
        {**chunk(), "choices": [{"index": 1, "delta": {"content": "b"}}]},
    ],
)
def test_whatever_says_more_than_text_goes_the_long_way(more: dict[str, Any]) -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 2.0)
    stream.feed(event(chunk({"content": "a"})))
    assert stream.quick(event(more)) is None


def test_answers_of_a_backend_that_gives_all_one_id_are_told_apart() -> None:
    parts = chat_stream({"content": "a"})
    ids = [
        message_of(translated(parts, Asked(model="m", request_id=request))[0])["id"]
        for request in ("r1", "r2")
    ]
    assert ids == ["msg_r1", "msg_r2"], "Claude Code joins messages of one id"


deltas = st.lists(
    st.one_of(
        st.builds(lambda t: {"content": t}, st.text(max_size=6)),
        st.builds(lambda t: {"reasoning_content": t}, st.text(max_size=6)),
        st.builds(
            lambda i, n, a: call(a, name=n, id=f"c{i}", index=i),
            st.integers(0, 2),
            st.sampled_from(["f", "g"]),
            st.sampled_from(["", "{}", '{"a":', "1}"]),
        ),
    ),
    max_size=8,
)


@settings(max_examples=60)
@given(
    deltas=deltas,
    cuts=st.lists(st.integers(0, 3000), max_size=8),
    line_end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_any_chunking_of_a_stream_gives_the_same_message(
    deltas: list[dict[str, Any]], cuts: list[int], line_end: bytes
) -> None:
    asked = Asked(model="up/m")
    parts = chat_stream(*deltas)
    expected = message_of(translated(parts, asked)[0])
    raw = b"".join(parts).replace(b"\n", line_end)
    places = sorted(min(cut, len(raw)) for cut in cuts)
    cut_up = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    events, facts = translated(cut_up, asked)
    assert message_of(events) == expected
    assert facts.completion_tokens == 2
    said = "".join(d["content"] for d in deltas if d.get("content"))
    assert "".join(b["text"] for b in expected["content"] if b["type"] == "text") == said


KEYS = [
    "choices", "delta", "index", "usage", "error", "timings", "content", "finish_reason", "id",
    "tool_calls", "function", "name", "arguments", "reasoning", "message", "refusal",
]  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=15,
)


@settings(max_examples=150)
@given(
    events=st.lists(
        values
        | st.builds(lambda d: {"choices": [{"index": 0, "delta": d}]}, values)
        | st.builds(lambda c: {"choices": [{"delta": {"content": "a", "tool_calls": c}}]}, values)
        | st.builds(lambda c: {"choices": [{"delta": {"tool_calls": [{"function": c}]}}]}, values),
        max_size=4,
    ),
)
def test_no_event_makes_it_raise_anything_but_its_own_errors(
    events: list[Any],
) -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 1.0)
    out = b""
    try:
        for value in events:
            out += stream.feed(b"data: " + json.dumps(value).encode() + b"\n\n")
    except UpstreamError:
        return
    message_of(events_of(out + stream.tail({})))


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=60), max_size=10))
def test_no_bytes_make_it_raise_anything_but_its_own_errors(parts: list[bytes]) -> None:
    stream = MessagesOverChat(Facts(), ASKED, now=lambda: 1.0)
    try:
        for part in parts:
            stream.feed(part)
        stream.tail({})
    except (UpstreamError, sse.TooLong):
        pass
