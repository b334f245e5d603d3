"""Faults that users of comparable tools reported, on /v1/messages and /v1/responses over HTTP."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cerberus_core.testing import Received, Reply, ScriptedServer
from cerberus_core.testing.scripted import DONE, Wait, chat_answer, chunk, sse
from tests.conftest import Box, StartBox, endpoint
from tests.gateway.messages_kit import events_of, message_of
from tests.gateway.test_wires_http import (
    ANTHROPIC,
    OPENAI,
    TOOL,
    USER,
    anthropic_client,
    chat,
    messages,
)

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "up/m", "max_tokens": 9, "messages": [USER]}


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream)) as box:
        yield box


def message_end() -> list[bytes]:
    end: dict[str, Any] = {"type": "message_delta", "usage": {"output_tokens": 3}}
    end["delta"] = {"stop_reason": "end_turn", "stop_sequence": None}
    return [named(end), named({"type": "message_stop"})]


def named(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def message_start() -> list[bytes]:
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
             "stop_reason": None, "stop_sequence": None,
             "usage": {"input_tokens": 9, "output_tokens": 0}}  # fmt: skip
    text = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "Hello"}
    return [
        named({"type": "message_start", "message": start}),
        named({"type": "content_block_start", "index": 0, "content_block": text}),
        named({"type": "content_block_delta", "index": 0, "delta": delta}),
        named({"type": "content_block_stop", "index": 0}),
    ]


BEGUN = {"chat": [sse(chunk({"content": "Hello"}))], "messages": message_start()}
ENDS = {"chat": [sse(chunk({}, finish="stop")), DONE], "messages": message_end()}


@pytest.mark.parametrize(
    "wire", [pytest.param("chat", marks=OPENAI), pytest.param("messages", marks=ANTHROPIC)]
)
@pytest.mark.wire("messages", "pings in a silent stream")
async def test_g17_a_silent_messages_stream_carries_pings(
    start_box: StartBox, upstream: ScriptedServer, wire: str
) -> None:
    gates = [Wait(), Wait()]
    upstream.reply = Reply.stream([gates[0], *BEGUN[wire], gates[1], *ENDS[wire]])
    settings = f'wires = ["{wire}"]\n[gateway]\nhold_s = 0.01\nkeepalive_s = 0.1\n'
    async with (
        start_box(endpoint(upstream, more=settings)) as box,
        box.http.stream("POST", "/v1/messages", json={**ASK, "stream": True}) as answer,
    ):
        text = ""
        async for piece in answer.aiter_text():
            text += piece
            silent, begun, later = text.partition("event: content_block_delta")
            if "event: ping" in silent:
                gates[0].go()  # nothing more comes before the pings have come
            if begun and "event: ping" in later:
                gates[1].go()
    told = message_of([e for e in events_of(text.encode()) if e["type"] != "ping"])
    assert told["content"] == [{"type": "text", "text": "Hello"}]


async def test_g17_anthropics_package_takes_no_notice_of_pings(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    gate = Wait()
    upstream.reply = Reply.stream([gate, *BEGUN["chat"], *ENDS["chat"]])
    settings = "[gateway]\nhold_s = 0.01\nkeepalive_s = 0.1\n"
    async with start_box(endpoint(upstream, more=settings)) as box, anthropic_client(box) as client:
        stream = await client.messages.create(**ASK, stream=True)
        gate.go()
        kinds = [event.type async for event in stream]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


@pytest.mark.parametrize("wire", ["chat", "messages"])
async def test_g19_a_key_in_either_header_of_messages_stays_here(
    start_box: StartBox, upstream: ScriptedServer, wire: str
) -> None:
    upstream.reply = {"chat": chat, "messages": messages}[wire]
    more = f'wires = ["{wire}"]\napi_key = "sk-upstream"\n'
    async with start_box(endpoint(upstream, more=more)) as box:
        made = await box.http.post("/api/keys", json={"name": "k"})
        tokens = [box.token, made.json()["token"]]
        for token in tokens:
            for headers in (
                {"authorization": f"Bearer {token}"},
                {"authorization": "", "x-api-key": token},
                {"authorization": f"Bearer {token}", "x-api-key": token},
            ):
                more_headers = {**headers, "anthropic-version": "1", "anthropic-beta": "b"}
                for stream in (False, True):
                    asked = {**ASK, "stream": stream}
                    answer = await box.http.post("/v1/messages", json=asked, headers=more_headers)
                    assert answer.status_code == 200, answer.text
    assert len(upstream.requests) == 12
    for received in upstream.requests:
        assert not any(token in str(received.headers) for token in tokens)
        own = {"chat": "authorization", "messages": "x-api-key"}[wire]
        assert (received.header(own) or "").removeprefix("Bearer ") == "sk-upstream"
        other = {"chat": "x-api-key", "messages": "authorization"}[wire]
        assert received.header(other) is None
        assert received.header("anthropic-beta") is None, "the client's headers stay here"


@pytest.mark.parametrize(
    "body",
    [
        b"{bad",
        b"[]",
        b"",
        b'"text"',
        b'{"messages": [{}], "max_tokens": 9}',
        b'{"model": "up/m", "max_tokens": 9}',
        b'{"model": "up/m", "max_tokens": 9, "messages": []}',
        b'{"model": "up/m", "max_tokens": 9, "messages": "hi"}',
        b'{"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}',
        b'{"model": "up/m", "max_tokens": 9, "messages": [{"role": "robot", "content": "hi"}]}',
        b'{"model": "up/m", "max_tokens": 9, "messages": [{"role": "user", "content": 7}]}',
        b'{"model": "up/m", "max_tokens": 9, "messages": [{"role": "user", "content": "\xff"}]}',
        b'{"model": "up/m", "max_tokens": 9, "messages": [{}], "stream": "yes"}',
        b'{"model": "up/m", "max_tokens": 9, "messages": [{}], "x": ' + b"[" * 100_000,
    ],
)
async def test_g30_a_bad_body_on_messages_is_a_400_in_its_words_and_never_goes_upstream(
    box: Box, upstream: ScriptedServer, body: bytes
) -> None:
    answer = await box.http.post("/v1/messages", content=body)
    assert answer.status_code == 400
    told = answer.json()
    assert (told["type"], told["error"]["type"]) == ("error", "invalid_request_error")
    assert told["error"]["message"]
    assert upstream.requests == []


BROKEN = ["", "null", "[]", '"text"', "{}", '{"command": "a']


def said(arguments: Any) -> list[dict[str, Any]]:
    """A history of Responses in which a call had these arguments."""
    call = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": arguments}
    return [USER, call, {"type": "function_call_output", "call_id": "c1", "output": "bad"}, USER]


@pytest.mark.parametrize("arguments", BROKEN)
async def test_a05_a06_a_broken_call_in_the_history_goes_on_as_valid_json(
    box: Box, upstream: ScriptedServer, arguments: str
) -> None:
    answer = await box.http.post("/v1/responses", json={"model": "up/m", "input": said(arguments)})
    assert answer.status_code == 200
    sent = upstream.requests[0].json()["messages"]
    [call] = next(m["tool_calls"] for m in sent if m.get("tool_calls"))
    assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == [call["id"]]


@pytest.mark.parametrize("arguments", BROKEN)
async def test_a05_a06_a_broken_call_that_a_model_makes_is_an_object_for_messages(
    box: Box, upstream: ScriptedServer, arguments: str
) -> None:
    function = {"name": "weather", "arguments": arguments}
    call = {"id": "c1", "type": "function", "function": function}
    upstream.reply = Reply.json(answered(content=None, tool_calls=[call]))
    told = (await box.http.post("/v1/messages", json={**ASK, "tools": [TOOL]})).json()
    [use] = told["content"]
    assert isinstance(use["input"], dict)
    assert told["stop_reason"] == "tool_use"
    assert bool(use["input"]) == (arguments not in ("", "null", "{}"))


def answered(finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    whole = chat_answer("")
    whole["choices"][0] |= {"message": {"role": "assistant", **message}, "finish_reason": finish}
    return whole


NOTHING = [
    {"content": "", "tool_calls": None, "reasoning_content": "Hm."},
    {"content": None, "tool_calls": None, "reasoning_content": "Hm."},
    {"content": "", "tool_calls": []},
]


@pytest.mark.parametrize("message", NOTHING)
@pytest.mark.parametrize("stream", [False, True])
async def test_a09_a10_an_answer_of_thoughts_alone_ends_and_shows_them(
    box: Box, upstream: ScriptedServer, message: dict[str, Any], stream: bool
) -> None:
    def reply(_: Received) -> Reply:
        if not stream:
            return Reply.json(answered(**message))
        return Reply.stream([sse(chunk(message)), sse(chunk({}, finish="stop")), DONE])

    upstream.reply = reply
    thoughts = message.get("reasoning_content")
    answer = await box.http.post("/v1/messages", json={**ASK, "stream": stream})
    told = message_of(events_of(answer.content)) if stream else answer.json()
    assert told["stop_reason"] == "end_turn"
    assert [b["thinking"] for b in told["content"]] == ([thoughts] if thoughts else [])
    asked = {"model": "up/m", "input": "?", "stream": stream}
    answer = await box.http.post("/v1/responses", json=asked)
    if stream:
        [line] = [x for x in answer.text.splitlines() if '"type":"response.completed"' in x]
        told = json.loads(line.removeprefix("data: "))["response"]
    else:
        told = answer.json()
    assert told["status"] == "completed"
    assert ("Hm." in json.dumps(told["output"])) == bool(thoughts)


@pytest.mark.parametrize("empty", ["", [], [{"type": "text", "text": ""}], None])
async def test_a14_an_empty_result_has_words_where_it_is_translated(
    box: Box, upstream: ScriptedServer, empty: Any
) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": empty}
    if empty is None:
        del result["content"]
    turns = [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    answer = await box.http.post("/v1/messages", json={**ASK, "messages": turns, "tools": [TOOL]})
    assert answer.status_code == 200
    [tool] = [m for m in upstream.requests[0].json()["messages"] if m["role"] == "tool"]
    assert tool["content"] == "(no output)"
