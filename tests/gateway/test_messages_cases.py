"""Field reports on `/v1/messages`, through a whole daemon, whichever wire the endpoint speaks."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import anyio
import pytest

from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_answer, chat_chunks, sse
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {
    "model": "up/m",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 9,
}
MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
    "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip


def events() -> list[bytes]:
    """A streamed answer in Anthropic's words."""
    begun = {**MESSAGE, "content": [], "stop_reason": None}
    told: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "text_delta", "text": "hello"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return [f"event: {one['type']}\n".encode() + sse(one) for one in told]


ANSWERS = {"chat": chat_answer("hello"), "messages": MESSAGE}


@pytest.fixture(params=["chat", "messages"])
def wire(request: pytest.FixtureRequest) -> str:
    """What the endpoint speaks."""
    return str(request.param)


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer, wire: str) -> AsyncIterator[Box]:
    upstream.reply = Reply.json(ANSWERS[wire])
    more = f'wires = ["{wire}"]\napi_key = "sk-upstream"\n'
    gateway = "[gateway]\nhold_s = 0.05\nkeepalive_s = 0.1\n"
    async with start_box(endpoint(upstream, more=more) + gateway) as box:
        yield box


async def test_g17_a_silent_prefill_carries_pings_that_the_official_client_passes_over(
    box: Box, upstream: ScriptedServer, wire: str
) -> None:
    prefill, half = Wait(), Wait()
    first, *rest = events() if wire == "messages" else chat_chunks(["hello"])
    upstream.reply = Reply.stream([prefill, first[:20], half, first[20:], *rest])
    raw = b""
    with anyio.fail_after(10):
        async with box.http.stream("POST", "/v1/messages", json={**ASK, "stream": True}) as answer:
            assert answer.status_code == 200
            async for piece in answer.aiter_raw():
                raw += piece
                pings = raw.count(b"event: ping\n")
                if pings >= 2:
                    prefill.go()
                if half.reached.is_set() and pings >= 4:
                    half.go()
    for block in raw.decode().split("\n\n"):
        assert block.count("data:") <= 1, "nothing stands inside an event"
    upstream.reply = Reply.stream(events() if wire == "messages" else chat_chunks(["hello"]))
    async with anthropic.AsyncAnthropic(base_url=box.url, api_key=box.token) as client:
        async with client.messages.stream(**ASK) as stream:
            assert await stream.get_final_text() == "hello"
    assert b"hello" in raw
    assert raw.rstrip().endswith(b'"message_stop"}')


async def test_g19_neither_token_nor_key_of_ours_goes_upstream(
    box: Box, upstream: ScriptedServer
) -> None:
    made = await box.http.post("/api/keys", json={"name": "k"})
    for token in (box.token, made.json()["token"]):
        for header in ({"x-api-key": token}, {"authorization": f"Bearer {token}"}):
            answer = await box.http.post(
                "/v1/messages", json=ASK, headers={"cookie": "a=b", **header}
            )
            assert answer.status_code == 200, answer.text
            received = upstream.requests[-1]
            sent = received.body.decode() + repr(received.headers)
            assert token not in sent
            assert box.token not in sent
            assert "sk-upstream" in sent
            assert received.header("cookie") is None


@pytest.mark.parametrize(
    "body",
    [
        b"{bad",
        b"[]",
        b"",
        b"[" * 100_000,
        b'{"model": "up/m", "max_tokens": 9, "messages": "hi"}',
        b'{"model": "up/m", "max_tokens": 9, "messages": []}',
        b'{"model": "up/m", "max_tokens": 9}',
        b'{"model": 7, "max_tokens": 9, "messages": [{}]}',
        b'{"model": "up/m", "messages": [{}], "stream": "yes"}',
    ],
)
async def test_g30_a_bad_body_is_a_400_in_anthropics_words(
    box: Box, upstream: ScriptedServer, body: bytes
) -> None:
    answer = await box.http.post("/v1/messages", content=body)
    told = answer.json()
    assert (answer.status_code, told["type"]) == (400, "error")
    assert told["error"]["type"] == "invalid_request_error"
    assert upstream.requests == []
