"""The Messages dialect: requests, errors, and a stream of it on its way through. Pure."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core import errors
from cerberus_core.errors import BadRequest, CerberusError
from cerberus_core.gateway import sse
from cerberus_core.gateway.body import NotJson
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError
from cerberus_core.gateway.upstream_errors import KeptStatus
from cerberus_core.gateway.wires import messages
from cerberus_core.gateway.wires.messages_stream import MessagesStream
from tests.gateway.messages_kit import events_of, message_of

ASK = b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "1.50"}]}'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{bad", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"", "empty"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"max_tokens": 9, "messages": [{}]}', "`model` is missing"),
        (b'{"model": 5, "messages": [{}]}', "`model` must be a string"),
        (b'{"model": "m", "max_tokens": 9}', "`messages` is missing"),
        (b'{"model": "m", "max_tokens": 9, "messages": []}', "`messages` is empty"),
        (b'{"model": "m", "max_tokens": 9, "messages": "hi"}', "`messages` must be a list"),
        (b'{"model": "m", "messages": [{}]}', "`max_tokens` is missing"),
        (b'{"model": "m", "max_tokens": "9", "messages": [{}]}', "`max_tokens` must be"),
        (b'{"model": "m", "max_tokens": 9, "messages": [{}], "stream": 1}', "`stream` must be"),
    ],
)
def test_g30_a_bad_body_is_the_clients_fault_in_words(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        messages.parse(body)
    assert words in caught.value.message
    told = json.loads(messages.error_body(caught.value))
    assert told["error"]["type"] == "invalid_request_error"


def test_a_request_keeps_the_bytes_of_what_is_not_changed() -> None:
    parsed = messages.parse(ASK.replace(b'"1.50"', b'"x", "n": 1.50'))
    assert (parsed.model, parsed.stream) == ("m", False)
    assert b'"n": 1.50' in parsed.body_for("m2", stream=False)
    assert json.loads(parsed.body_for("m2", stream=True)) == {
        **parsed.decoded(),
        "model": "m2",
        "stream": True,
    }
    assert messages.parse(ASK[:-1] + b', "stream": true}').stream


def test_counting_needs_no_max_tokens_and_never_streams() -> None:
    body = b'{"model": "m", "messages": [{}], "stream": true}'
    assert not messages.parse(body, counting=True).stream


def test_what_only_looks_like_json_is_refused_when_it_is_translated() -> None:
    with pytest.raises(BadRequest, match="not valid JSON"):
        messages.parse(ASK[:-1] + b', "a": [1e999]}').decoded()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.BadRequest("x"), "invalid_request_error"),
        (errors.Unsupported("x"), "invalid_request_error"),
        (errors.AccessDenied("x"), "authentication_error"),
        (errors.ModelNotFound("x"), "not_found_error"),
        (errors.Overloaded("x"), "rate_limit_error"),
        (errors.NoRoom("x"), "overloaded_error"),
        (errors.LoadFailed("x"), "api_error"),
        (errors.EngineLost("x"), "api_error"),
        (errors.UpstreamFailed("x"), "api_error"),
        (errors.CerberusError("x"), "api_error"),
        (KeptStatus("x", 400), "invalid_request_error"),
        (KeptStatus("x", 402), "billing_error"),
        (KeptStatus("x", 403), "permission_error"),
        (KeptStatus("x", 413), "request_too_large"),
        (KeptStatus("x", 422), "invalid_request_error"),
        (KeptStatus("x", 429), "rate_limit_error"),
        (KeptStatus("x", 500), "api_error"),
        (KeptStatus("x", 503), "overloaded_error"),
        (KeptStatus("x", 529), "overloaded_error"),
    ],
)
def test_g29_every_error_has_its_type(error: CerberusError, kind: str) -> None:
    assert json.loads(messages.error_body(error))["error"]["type"] == kind


def test_an_error_says_what_to_do_and_which_request_it_was() -> None:
    error = errors.NoRoom("up/m does not fit", hint="Unload up/n.")
    told = {
        "type": "error",
        "error": {
            "type": "overloaded_error",
            "message": "up/m does not fit. Unload up/n.",
            "details": {"error_code": "no_room"},
        },
        "request_id": "r1",
    }
    assert json.loads(messages.error_body(error, "r1")) == told
    assert events_of(messages.error_event(error, "r1")) == [told]
    large = messages.error_body(errors.BadRequest("too large"), status=413)
    assert json.loads(large)["error"]["type"] == "request_too_large"


def test_g17_a_ping_is_an_event_of_its_own() -> None:
    assert events_of(messages.KEEP_ALIVE) == [{"type": "ping"}]


def test_usage_of_a_whole_answer_counts_the_cached_prompt_too() -> None:
    facts = Facts()
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 31,
        "cache_creation_input_tokens": 8,
        "output_tokens": 6,
    }
    fields = messages.read(json.dumps({"model": "m", "usage": usage}).encode(), facts)
    assert bytes(fields["model"]) == b'"m"'
    assert (facts.prompt_tokens, facts.cached_tokens, facts.completion_tokens) == (40, 31, 6)
    messages.take_usage(b'"odd"', facts)
    assert facts.prompt_tokens == 40
    with pytest.raises(NotJson):
        messages.read(b"<html>", facts)


# A stream that the backend makes itself: as llama.cpp sends it, but for the ping.


def named(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


def delta(text: str) -> bytes:
    return named("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


USAGE = {"cache_read_input_tokens": 31, "input_tokens": 1, "output_tokens": 0}
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m",
    "stop_reason": None, "stop_sequence": None, "usage": USAGE,
}  # fmt: skip
START = named("message_start", message=MESSAGE)
BEGIN = named("content_block_start", index=0, content_block={"type": "text", "text": ""})
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
END = named("content_block_stop", index=0)
STOPPED = {"stop_reason": "max_tokens", "stop_sequence": None}
LAST = named("message_delta", delta=STOPPED, usage={"output_tokens": 6})
STOP = named("message_stop")
GOOD = [START, BEGIN, PING, delta("I"), delta("'m é"), END, LAST, STOP]


def passed(parts: list[bytes], public_model: str | None = "up/m") -> tuple[bytes, Facts]:
    facts = Facts()
    stream = MessagesStream(facts, public_model=public_model, now=lambda: 1.0)
    out = b""
    for part in parts:
        quick = stream.quick(part)
        out += stream.feed(part) if quick is None else quick
        if quick is not None:
            stream.passed()
    assert stream.finished
    return out + stream.tail({"request_id": "r1"}), facts


def test_a_stream_passes_as_it_came_but_for_name_and_figures() -> None:
    out, facts = passed(GOOD)
    assert b"".join(GOOD[1:6]) in out
    message = message_of(events_of(out))
    assert (message["model"], message["content"]) == ("up/m", [{"type": "text", "text": "I'm é"}])
    assert message["usage"] == {"output_tokens": 6, "cerberus": {"request_id": "r1"}}
    assert (facts.prompt_tokens, facts.cached_tokens, facts.completion_tokens) == (32, 31, 6)
    assert (facts.pieces, facts.first_at) == (2, 1.0)
    untouched, _ = passed(GOOD, public_model=None)
    assert untouched.startswith(b"".join(GOOD[:6]))


@settings(max_examples=60)
@given(cuts=st.lists(st.integers(0, 1500), max_size=8), line_end=st.sampled_from([b"\n", b"\r\n"]))
def test_any_cut_gives_the_same_events(cuts: list[int], line_end: bytes) -> None:
    raw = b"".join(GOOD).replace(b"\n", line_end)
    places = sorted(min(cut, len(raw)) for cut in cuts)
    parts = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    out, facts = passed(parts)
    expected, facts_of_whole = passed(GOOD)
    assert events_of(out) == events_of(expected)
    assert facts == facts_of_whole


def test_deltas_need_no_hand_once_the_first_has_come() -> None:
    facts = Facts()
    stream = MessagesStream(facts, public_model="up/m", now=lambda: 1.0)
    stream.feed(START + BEGIN)
    assert stream.quick(delta("a")) is None
    assert stream.feed(delta("a")) == delta("a")
    assert stream.quick(delta("a") + delta("b")) == delta("a") + delta("b")
    assert facts.pieces == 1
    stream.passed()
    assert facts.pieces == 3
    for other in (PING, END, LAST, STOP, delta("a") + PING):
        assert stream.quick(other) is None


def test_g04_one_stop_ends_it_whether_the_backend_sends_it_or_not() -> None:
    for parts in (GOOD, GOOD[:-1], [*GOOD, STOP, delta("late")]):
        out, _ = passed(parts)
        assert [event["type"] for event in events_of(out)].count("message_stop") == 1
        assert out.endswith(STOP)


def test_what_follows_the_stop_is_left_out() -> None:
    out, _ = passed([b"".join(GOOD) + delta("late")])
    assert events_of(out) == events_of(passed(GOOD)[0])


def test_g06_after_an_error_nothing_ends_well() -> None:
    stream = MessagesStream(Facts(), public_model=None, now=lambda: 1.0)
    error = named("error", error={"type": "overloaded_error", "message": "busy"})
    with pytest.raises(UpstreamError) as caught:
        stream.feed(START + BEGIN + delta("a") + error + delta("b"))
    assert json.loads(caught.value.payload)["message"] == "busy"
    assert stream.before_error == START + BEGIN + delta("a")
    assert not stream.finished


def test_g05_a_stream_that_is_cut_off_is_not_finished() -> None:
    stream = MessagesStream(Facts(), public_model=None, now=lambda: 1.0)
    stream.feed(b"".join(GOOD[:5]))
    assert not stream.finished


def test_only_the_last_of_several_message_deltas_is_held_back() -> None:
    early = named("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 1})
    parts = [*GOOD[:4], early, *GOOD[4:]]
    out, _ = passed(parts)
    kinds = [event["type"] for event in events_of(out)]
    assert kinds.count("message_delta") == 2
    assert kinds.index("message_delta") == 4
    assert out.count(b"cerberus") == 1


def test_events_without_a_name_get_one_and_foreign_ends_are_left_out() -> None:
    parts = [part.partition(b"\n")[2] for part in GOOD]
    out, _ = passed([*parts[:-1], b"data: [DONE]\n\n", parts[-1]])
    assert events_of(out) == events_of(passed(GOOD)[0])


@settings(max_examples=100)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.builds(
            lambda kind, more: named(kind, **more),
            st.sampled_from(
                ["message_start", "message_delta", "message_stop", "content_block_delta", "error"]
            ),
            st.dictionaries(
                st.sampled_from(["message", "usage", "delta", "error"]),
                st.none()
                | st.integers()
                | st.text(max_size=3)
                | st.dictionaries(st.sampled_from(["usage", "stop_reason"]), st.integers()),
                max_size=3,
            ),
        ),
        max_size=8,
    )
)
def test_no_bytes_make_it_raise_anything_but_its_own_errors(parts: list[bytes]) -> None:
    stream = MessagesStream(Facts(), public_model="x", now=lambda: 1.0)
    try:
        for part in parts:
            stream.feed(part)
        stream.tail({})
    except (UpstreamError, sse.TooLong):
        pass
