"""A chat answer becomes a response, whole or as a stream, as the official package types it."""

import copy
import itertools
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from cerberus_core.errors import BadRequest, LoadFailed, Overloaded, UpstreamFailed
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError
from cerberus_core.gateway.wires import responses_events, responses_over_chat
from cerberus_core.gateway.wires.responses import Asked, error_body, error_event
from cerberus_core.gateway.wires.responses_stream import ResponsesStream
from cerberus_core.testing.scripted import DONE, chunk, sse

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
USAGE_CHUNK = sse({"choices": [], "usage": USAGE})
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False},
    {
        "type": "namespace",
        "name": "agents",
        "description": "x",
        "tools": [{"type": "function", "name": "wait", "parameters": {}, "strict": False}],
    },
    {"type": "custom", "name": "apply_patch"},
    {"type": "local_shell"},
    {"type": "web_search"},
]


def asked(**fields: Any) -> Asked:
    return Asked.of({"tools": TOOLS, **fields}, id="resp_1", model="pub", created_at=5)


def stream(facts: Facts | None = None, **fields: Any) -> ResponsesStream:
    times = iter(range(1, 100_000))
    return ResponsesStream(facts or Facts(), asked(**fields), now=lambda: float(next(times)))


def told(*parts: bytes, extra: Any = None, facts: Facts | None = None, **fields: Any) -> bytes:
    """A whole stream, as the client gets it."""
    reader = stream(facts, **fields)
    out = []
    for part in parts:
        quick = reader.quick(part)
        if quick is not None:
            out.append(quick)
            reader.passed()
        else:
            out.append(reader.feed(part))
    assert reader.finished
    return b"".join(out) + reader.tail(extra)


def events_of(data: bytes) -> list[dict[str, Any]]:
    """Decoded; each is valid, in order, and named by its `event:` line."""
    events = []
    for block in data.decode().split("\n\n"):
        if not block or block.startswith(":"):
            continue
        name, _, line = block.partition("\n")
        event = json.loads(line.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        EVENT.validate_python(event)
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def accumulated(events: list[dict[str, Any]]) -> Response:
    """By the official package's own helper; each output's deltas add up to what is done."""
    state: Any = ResponseStreamState(input_tools=openai.omit, text_format=openai.omit)
    for event in events:
        state.handle_event(EVENT.validate_python(event))
    whole: Response = state._completed_response
    return whole


def final(data: bytes) -> dict[str, Any]:
    response: dict[str, Any] = events_of(data)[-1]["response"]
    return response


def delta(text: str) -> bytes:
    return sse(chunk({"content": text}))


def call(index: int | None, id: str | None = None, **function: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"function": function}
    if index is not None:
        fields["index"] = index
    if id is not None:
        fields.update(id=id, type="function")
    return fields


def calls(*each: dict[str, Any]) -> bytes:
    return sse(chunk({"tool_calls": list(each)}))


def end(reason: str) -> bytes:
    return sse(chunk({}, finish=reason))


def test_text_is_told_in_all_its_events_and_adds_up() -> None:
    facts = Facts()
    data = told(
        sse(chunk({"role": "assistant", "content": ""})),
        delta("Hel"),
        delta('lo "é😀\n'),
        end("stop"),
        USAGE_CHUNK,
        DONE,
        extra={"ttft_ms": 1},
        facts=facts,
    )
    events = events_of(data)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    whole = accumulated(events)
    assert whole.output_text == 'Hello "é😀\n'
    assert (whole.status, whole.model, whole.id) == ("completed", "pub", "resp_1")
    usage = events[-1]["response"]["usage"]
    assert usage == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 10,
        "cerberus": {"ttft_ms": 1},
    }
    assert (facts.pieces, facts.first_at, facts.last_at) == (2, 1.0, 2.0)
    assert (facts.prompt_tokens, facts.completion_tokens, facts.cached_tokens) == (7, 3, 4)


@pytest.mark.parametrize("summary", ["auto", None])
def test_reasoning_is_a_summary_where_one_was_asked_for(summary: str | None) -> None:
    data = told(
        sse(chunk({"reasoning_content": "Let me "})),
        sse(chunk({"reasoning": "think."})),
        delta("Yes"),
        end("stop"),
        reasoning={"effort": "low", "summary": summary},
    )
    events = events_of(data)
    kind = "reasoning_summary_text" if summary else "reasoning_text"
    deltas = [event["delta"] for event in events if event["type"] == f"response.{kind}.delta"]
    assert deltas == ["Let me ", "think."]
    thoughts = accumulated(events).output[0].to_dict()
    part = {"type": "summary_text" if summary else "reasoning_text", "text": "Let me think."}
    assert thoughts["summary"] == ([part] if summary else [])
    assert thoughts.get("content") == (None if summary else [part])


def test_calls_go_back_to_what_the_client_declared() -> None:
    data = told(
        delta("Look."),
        calls(call(0, "a", name="read", arguments="")),
        calls(call(0, arguments='{"p":')),
        calls(call(0, arguments="1}")),
        calls(call(1, "b", name="agents__wait", arguments="{}")),
        calls(call(2, "c", name="apply_patch", arguments='{"input": "*** Beg')),
        calls(call(2, arguments='in"}')),
        calls(call(3, "d", name="local_shell", arguments='{"command":["ls"],"timeout_ms":5}')),
        end("tool_calls"),
    )
    output = accumulated(events_of(data)).output
    assert [item.type for item in output] == [
        "message",
        "function_call",
        "function_call",
        "custom_tool_call",
        "local_shell_call",
    ]
    items = [item.to_dict() for item in output[1:]]
    assert [item["call_id"] for item in items] == ["a", "b", "c", "d"]
    assert (items[0]["name"], items[0]["arguments"]) == ("read", '{"p":1}')
    assert (items[1]["name"], items[1]["namespace"]) == ("wait", "agents")
    assert items[2]["input"] == "*** Begin"
    assert items[3]["action"] == {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5}


def test_a_custom_tools_text_is_taken_whole_from_a_model_that_forgot_the_argument() -> None:
    data = told(calls(call(0, "c", name="apply_patch", arguments="*** Begin")), end("stop"))
    assert final(data)["output"][0]["input"] == "*** Begin"


def test_g09_chunks_without_choices_do_no_harm_anywhere() -> None:
    empty = sse({"choices": []})
    data = told(empty, delta("a"), USAGE_CHUNK, delta("b"), end("stop"), empty, DONE)
    assert accumulated(events_of(data)).output_text == "ab"
    assert final(data)["usage"]["output_tokens"] == 3


def test_answers_that_nobody_asked_for_are_left_out() -> None:
    second = chunk({"content": "no"}, finish="length")
    second["choices"][0]["index"] = 1
    data = told(delta("a"), sse(second), delta("b"), end("stop"))
    assert accumulated(events_of(data)).output_text == "ab"


@pytest.mark.parametrize("nothing", [[], None])
def test_g10_empty_tool_calls_next_to_text_are_none(nothing: Any) -> None:
    pieces = [sse(chunk({"content": text, "tool_calls": nothing})) for text in "xyz"]
    data = told(*pieces, end("stop"))
    assert "function_call" not in data.decode()
    assert accumulated(events_of(data)).output_text == "xyz"


def test_g11_arguments_that_come_whole_are_a_delta_and_equal_the_whole_answers() -> None:
    first = call(0, "a", name="read", arguments='{"p":1}')
    events = events_of(told(calls(first), end("tool_calls")))
    deltas = [each["delta"] for each in events if each["type"].endswith("arguments.delta")]
    assert "".join(deltas) == '{"p":1}'
    whole = whole_answer({"content": None, "tool_calls": [first]}, "tool_calls")
    assert whole["output"] == events[-1]["response"]["output"]


def test_g12_calls_without_an_index_are_two_and_objects_become_strings() -> None:
    data = told(
        calls(call(None, "a", name="read", arguments={"p": 1})),
        calls(call(None, "b", name="read", arguments='{"p":2}')),
        end("tool_calls"),
    )
    got = [(item["call_id"], item["arguments"]) for item in final(data)["output"]]
    assert got == [("a", '{"p":1}'), ("b", '{"p":2}')]


def test_g12_calls_with_neither_index_nor_id_are_told_apart_by_their_names() -> None:
    data = told(
        calls(call(None, name="read", arguments='{"p":')),
        calls(call(None, arguments="1}")),
        calls(call(None, name="read", arguments="{}")),
        end("tool_calls"),
    )
    output = final(data)["output"]
    assert [item["arguments"] for item in output] == ['{"p":1}', "{}"]
    assert len({item["call_id"] for item in output}) == 2


def test_g13_parallel_calls_that_all_have_index_0_stay_two() -> None:
    data = told(
        calls(call(0, "a", name="read", arguments='{"p":1}')),
        calls(call(0, "b", name="read", arguments='{"p":')),
        calls(call(0, arguments="2}")),
        end("tool_calls"),
    )
    output = final(data)["output"]
    assert [item["arguments"] for item in output] == ['{"p":1}', '{"p":2}']
    again = responses_over_chat.request({"model": "m", "input": [{"content": "x"}, *output][1:]})
    sent = [each["function"]["arguments"] for each in again["messages"][0]["tool_calls"]]
    assert [json.loads(each) for each in sent] == [{"p": 1}, {"p": 2}]


def test_g14_a_length_stop_is_incomplete_and_half_a_call_is_never_done() -> None:
    data = told(
        calls(call(0, "a", name="read", arguments='{"p":1}')),
        calls(call(1, "b", name="read", arguments='{"p":')),
        calls(call(2, "c", name="apply_patch", arguments='{"in')),
        end("length"),
        USAGE_CHUNK,
        DONE,
    )
    events = events_of(data)
    done = [each["item"]["call_id"] for each in events if each["type"].endswith("item.done")]
    assert done == ["a"]
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    states = [(item["call_id"], item["status"]) for item in response["output"]]
    assert states == [("a", "completed"), ("b", "incomplete"), ("c", "incomplete")]


def test_a_text_that_is_cut_off_or_filtered_says_so() -> None:
    response = final(told(delta("Once"), end("length")))
    assert response["output"][0]["status"] == "incomplete"
    response = final(told(delta("Once"), end("content_filter")))
    assert response["incomplete_details"] == {"reason": "content_filter"}


def test_empty_arguments_are_an_empty_object() -> None:
    events = events_of(told(calls(call(0, "a", name="read")), end("tool_calls")))
    assert accumulated(events).output[0].to_dict()["arguments"] == "{}"
    assert [e["delta"] for e in events if e["type"].endswith("arguments.delta")] == ["{}"]


def test_refusals_and_logprobs_are_carried() -> None:
    one = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    event = chunk({"content": "a"})
    event["choices"][0]["logprobs"] = {"content": [one]}
    events = events_of(told(sse(event), sse(chunk({"refusal": "No."})), end("stop")))
    message, refusal = accumulated(events).output
    part = message.to_dict()["content"][0]
    assert (part["text"], part["logprobs"]) == ("a", [one])
    assert refusal.to_dict()["content"] == [{"type": "refusal", "refusal": "No."}]


def test_usage_that_nobody_told_is_null_and_not_zero() -> None:
    assert final(told(delta("a"), end("stop"), DONE, extra={}))["usage"] is None


def test_g17_a_silent_stream_is_kept_alive_by_events_in_order() -> None:
    reader = stream()
    data = reader.keep_alive() + reader.keep_alive() + reader.feed(delta("a"))
    data += reader.keep_alive() + reader.feed(end("stop")) + reader.tail({})
    assert accumulated(events_of(data)).output_text == "a"


def test_g06_an_answer_that_breaks_ends_in_one_failed_event() -> None:
    reader = stream()
    data = reader.feed(delta("a") + delta("b"))
    with pytest.raises(UpstreamError) as caught:
        reader.feed(delta("c") + sse({"error": {"message": "boom"}}) + delta("d"))
    assert json.loads(caught.value.payload) == {"message": "boom"}
    data += reader.before_error + reader.failed(LoadFailed("gone", hint="Ask again."))
    events = events_of(data)
    assert "".join(each["delta"] for each in events if "delta" in each) == "abc"
    assert [each["type"] for each in events].count("response.failed") == 1
    assert events[-1]["response"]["error"] == {
        "code": "server_error",
        "message": "gone (Ask again.)",
    }
    assert not reader.finished


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadRequest("x"), "invalid_prompt"),
        (Overloaded("x"), "rate_limit_exceeded"),
        (BadRequest("x", code="context_length_exceeded"), "context_length_exceeded"),
    ],
)
def test_a_failure_before_the_first_event_is_told_in_a_code_that_agents_know(
    error: Any, code: str
) -> None:
    data = stream().failed(error).decode()
    assert [line for line in data.split("\n") if line.startswith("event:")] == [
        "event: response.created",
        "event: response.in_progress",
        "event: response.failed",
    ]
    assert f'"error":{{"code":"{code}","message":"x"}}' in data


def test_errors_have_openais_shape() -> None:
    error = json.loads(error_body(BadRequest("no", hint="Do."), "r1"))["error"]
    assert (error["message"], error["hint"], error["request_id"]) == ("no", "Do.", "r1")
    (event,) = events_of(error_event(BadRequest("no")))
    assert (event["message"], event["code"], event["error"]["message"]) == (
        "no",
        "bad_request",
        "no",
    )


def test_an_answer_has_a_most_of_bytes_and_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses_events, "MAX_SIZE", 40)
    monkeypatch.setattr(responses_events, "MAX_ITEMS", 3)
    reader = stream()
    reader.feed(delta("x" * 30))
    assert reader.quick(delta("x" * 30)) is not None
    reader.passed()
    assert reader.quick(delta("x")) is None
    with pytest.raises(UpstreamError):
        reader.feed(delta("x"))
    many = [call(index, f"c{index}", name="read") for index in range(4)]
    with pytest.raises(UpstreamError):
        stream().feed(calls(*many))


def test_g02_only_cr_and_lf_end_a_line() -> None:
    raw = json.dumps(chunk({"content": "a\u2028b\u0085c\u2029d"}), ensure_ascii=False).encode()
    data = told(b"data: " + raw + b"\n\n", end("stop"))
    assert accumulated(events_of(data)).output_text == "a\u2028b\u0085c\u2029d"


def test_g05_a_call_that_is_cut_off_is_neither_done_nor_finished() -> None:
    reader = stream()
    data = reader.feed(calls(call(0, "a", name="read", arguments='{"p":')))
    assert not reader.finished
    data += reader.failed(UpstreamFailed("cut off"))
    assert b"item.done" not in data
    assert events_of(data)[-1]["type"] == "response.failed"


# Whole answers.


def whole_answer(message: Any, reason: Any = "stop", **more: Any) -> dict[str, Any]:
    body = {"choices": [{"message": message, "finish_reason": reason}], **more}
    response = responses_over_chat.answer(body, asked())
    response = json.loads(json.dumps(response, default=lambda raw: json.loads(bytes(raw))))
    Response.model_validate(response)
    return response


def test_a_whole_answer_is_the_same_response() -> None:
    message = {
        "role": "assistant",
        "reasoning_content": "hm",
        "content": "Hi",
        "tool_calls": [call(None, "a", name="read", arguments='{"p":1}')],
    }
    response = whole_answer(message, "tool_calls", usage=USAGE)
    assert [item["type"] for item in response["output"]] == [
        "reasoning",
        "message",
        "function_call",
    ]
    assert response["usage"]["total_tokens"] == 10
    data = told(
        sse(chunk({"reasoning_content": "hm"})),
        delta("Hi"),
        calls(call(0, "a", name="read", arguments='{"p":1}')),
        end("tool_calls"),
        USAGE_CHUNK,
    )
    assert final(data)["output"] == response["output"]


def test_a_whole_answer_that_was_cut_off() -> None:
    half = [call(None, "a", name="read", arguments='{"p":')]
    response = whole_answer({"content": "x", "tool_calls": half}, "length")
    assert response["status"] == "incomplete"
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{}]}, {"choices": 3}])
def test_an_answer_without_a_message_is_the_endpoints_failure(body: Any) -> None:
    with pytest.raises(UpstreamFailed):
        responses_over_chat.answer(body, asked())


def test_an_error_in_a_good_answer_is_told_in_its_own_words() -> None:
    with pytest.raises(UpstreamFailed, match="out of memory"):
        responses_over_chat.answer({"error": {"message": "out of memory"}}, asked())


def test_half_an_escaped_character_costs_no_more_than_itself() -> None:
    whole = b'data: {"choices":[{"delta":{"content":"a\\ud83d\\ude00\\\\ud83d"}}]}\n\n'
    half = b'data: {"choices":[{"delta":{"content":"b\\ud83d"}}]}\n\n'
    other = b'data: {"choices":[{"delta":{"content":"\\ude00\\ud83d\\ude00c"}}]}\n\n'
    data = told(whole, half, other, end("stop"))
    assert accumulated(events_of(data)).output_text == "a😀\\ud83db��😀c"


# Properties.

FULL = b"".join(
    [
        b": ping\n\n",
        sse(chunk({"role": "assistant", "content": None, "reasoning_content": "é😀"})),
        delta("北京"),
        delta(" a\u2028b"),
        calls(call(0, "a", name="read", arguments='{"p":')),
        calls(call(0, arguments='"é"}')),
        end("tool_calls"),
        USAGE_CHUNK,
        DONE,
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, len(FULL)), max_size=6), st.booleans())
def test_g01_g03_any_cut_gives_the_same_events(cuts: list[int], crlf: bool) -> None:
    data = FULL.replace(b"\n", b"\r\n") if crlf else FULL
    bounds = [0, *sorted(cuts), len(data)]
    parts = [data[a:b] for a, b in itertools.pairwise(bounds)]
    assert events_of(told(*parts, extra={})) == events_of(told(FULL, extra={}))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=4), min_size=2, max_size=6))
def test_the_fast_path_tells_what_the_slow_one_tells(texts: list[str]) -> None:
    facts = Facts()
    data = told(*[delta(text) for text in texts], end("stop"), facts=facts)
    assert accumulated(events_of(data)).output_text == "".join(texts)
    assert facts.pieces == len(texts)
    assert data == told(b"".join(delta(text) for text in texts) + end("stop"))


def test_what_quick_gave_and_nobody_sent_has_not_happened() -> None:
    reader = stream()
    data = reader.feed(delta("a"))
    assert reader.quick(delta("b")) is not None
    data += reader.feed(delta("b")) + reader.feed(end("stop")) + reader.tail({})
    assert accumulated(events_of(data)).output_text == "ab"


@pytest.mark.parametrize(
    "event",
    [
        chunk({"content": "x", "reasoning_content": "y"}),
        chunk({"content": "x", "tool_calls": [call(0, "a", name="read")]}),
        chunk({"content": "x"}, finish="stop"),
        {**chunk({"content": "x"}), "usage": USAGE},
        {**chunk({"content": "x"}), "timings": {}, "error": "e"},
    ],
)
def test_the_fast_path_leaves_alone_what_holds_more_than_text(event: Any) -> None:
    reader = stream()
    reader.feed(delta("a"))
    assert reader.quick(sse(event)) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def mutated(value: Any) -> Iterator[tuple[Any, Any]]:
    """(holder, key) of every place in a value."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    )
    for key in list(keys):
        yield value, key
        yield from mutated(value[key])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_event_makes_it_raise_anything_but_its_typed_error(data: st.DataObject) -> None:
    event = chunk(
        {"content": "x", "reasoning": "y", "tool_calls": [call(0, "a", name="read", arguments="")]},
        finish=data.draw(st.sampled_from([None, "stop", "length"])),
    )
    event.update(usage=copy.deepcopy(USAGE), timings={}, error=None)
    holder, key = data.draw(st.sampled_from(list(mutated(event))))
    holder[key] = data.draw(json_values)
    reader = stream()
    try:
        out = reader.feed(delta("a")) + reader.feed(sse(event)) + reader.feed(end("length"))
    except UpstreamError:
        return
    events_of(out + reader.tail({}))


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_it_raise(noise: bytes) -> None:
    reader = stream()
    try:
        reader.feed(delta("a") + b"data: " + noise + b"\n\n")
        reader.feed(end("stop"))
    except UpstreamError:
        return
    reader.tail({})


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_whole_answer_makes_it_raise_anything_but_its_typed_error(data: st.DataObject) -> None:
    message: Any = {
        "content": "x",
        "reasoning_content": "y",
        "refusal": None,
        "tool_calls": [call(0, "a", name="read", arguments="{}")],
    }
    body = {"choices": [{"message": message, "finish_reason": "stop", "logprobs": None}]}
    body["usage"] = copy.deepcopy(USAGE)  # type: ignore[assignment]
    holder, key = data.draw(st.sampled_from(list(mutated(body))))
    holder[key] = data.draw(json_values)
    try:
        response = responses_over_chat.answer(body, asked())
    except UpstreamFailed:
        return
    json.dumps(response, default=lambda raw: json.loads(bytes(raw)))
