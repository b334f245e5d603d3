"""The whole daemon with aiohttp as its client: what a cloud behind TLS is reached with."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from cerberus_core.gateway.clients import Clients
from cerberus_core.gateway.upstream import Client
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import RESET, Wait, chat_answer, chat_chunks, chunk, sse
from tests.conftest import Box, StartBox, endpoint
from tests.gateway.odd_http import ASK, http_1_0, raw_request

pytestmark = pytest.mark.anyio


@pytest.fixture
async def box(
    start_box: StartBox, upstream: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Box]:
    def remote(clients: Clients, url: str) -> Client:
        return clients.remote

    monkeypatch.setattr(Clients, "for_url", remote)
    async with start_box(endpoint(upstream, more='api_key = "sk-upstream"')) as box:
        yield box


async def test_a_whole_answer(box: Box, upstream: ScriptedServer) -> None:
    upstream.reply = Reply.json(chat_answer("x"))
    answer = await box.http.post("/v1/chat/completions", json=ASK)
    assert answer.json()["choices"][0]["message"]["content"] == "x"
    assert upstream.requests[0].header("authorization") == "Bearer sk-upstream"
    assert upstream.requests[0].header("host") == f"127.0.0.1:{upstream.port}"
    assert (await box.record()).completion_tokens == 2


async def test_a_stream_comes_piece_by_piece_and_gives_its_connection_back(
    box: Box, upstream: ScriptedServer
) -> None:
    first, *others = chat_chunks(["Hel", "lo"])
    wait = Wait()
    upstream.reply = Reply.stream([first, wait, *others])
    body = json.dumps({**ASK, "stream": True}).encode()
    reader, writer = await raw_request(box, body)
    with anyio.fail_after(5):
        await reader.readuntil(b'"Hel"')  # before the rest is there
        wait.go()
        await reader.readuntil(b"[DONE]\n\n")
    writer.close()
    upstream.reply = Reply.stream(chat_chunks(["again"]))
    answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": True})
    assert answer.text.endswith("[DONE]\n\n")
    assert upstream.connections == 1


@pytest.mark.parametrize("moment", ["after two chunks", "whole answer", "before any byte"])
async def test_g15_the_client_leaves_and_the_endpoint_hears_it_within_a_second(
    box: Box, upstream: ScriptedServer, moment: str
) -> None:
    wait = Wait()
    stream = moment == "after two chunks"
    pieces = [sse(chunk({"content": text})) for text in "ab"] if stream else []
    upstream.reply = Reply.stream([*pieces, wait])
    body = json.dumps({**ASK, "stream": moment != "whole answer"}).encode()
    reader, writer = await raw_request(box, body)
    received = await upstream.arrived()
    if stream:
        await reader.readuntil(b'"b"')
    await wait.reached.wait()
    writer.close()
    with anyio.fail_after(1):
        await received.closed.wait()
    assert (await box.record()).status == 499


async def test_g19_a_redirects_target_never_sees_a_request(
    box: Box, upstream: ScriptedServer
) -> None:
    async with ScriptedServer() as elsewhere:
        location = ("location", elsewhere.base_url + "/chat/completions")
        upstream.reply = Reply(status=307, headers=[location], framing="length")
        answer = await box.http.post("/v1/chat/completions", json=ASK)
        assert answer.status_code == 502
        assert "sk-upstream" not in answer.text
        assert len(upstream.requests) == 1
        assert (elsewhere.requests, elsewhere.connections) == ([], 0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("framing", ["length", "chunked", "close", "HTTP/1.0"])
async def test_g20_answers_are_framed_once(
    box: Box, upstream: ScriptedServer, framing: Any, stream: bool
) -> None:
    kind = "text/event-stream" if stream else "application/json"
    parts = chat_chunks(["x"]) if stream else [json.dumps(chat_answer("x")).encode()]
    headers = [("content-type", kind), ("server", "simple"), ("set-cookie", "spy=1")]
    upstream.reply = Reply(
        headers=headers,
        parts=parts,
        framing="close" if framing == "HTTP/1.0" else framing,
        raw_head=http_1_0(kind) if framing == "HTTP/1.0" else None,
    )
    answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": stream})
    names = [name for name, _ in answer.headers.multi_items()]
    assert ("content-length" in names) != ("transfer-encoding" in names)
    assert len(names) == len(set(names))
    assert "set-cookie" not in names
    assert answer.headers.get("server") != "simple"
    assert answer.text.endswith("[DONE]\n\n") if stream else answer.json()["choices"]


async def test_g28_dropped_streams_use_up_no_connections(
    box: Box, upstream: ScriptedServer
) -> None:
    upstream.reply = lambda _: Reply.stream([sse(chunk({"content": "a"})), Wait()])

    async def drop() -> None:
        reader, writer = await raw_request(box, json.dumps({**ASK, "stream": True}).encode())
        await reader.readuntil(b'"a"')
        writer.transport.abort()

    for _ in range(5):
        await asyncio.gather(*(drop() for _ in range(10)))
    assert len(upstream.requests) == 50
    upstream.reply = Reply.json(chat_answer("x"))
    with anyio.fail_after(1):
        answer = await box.http.post("/v1/chat/completions", json=ASK)
    assert answer.status_code == 200
    with anyio.fail_after(5):
        for received in upstream.requests[:50]:
            await received.closed.wait()
        while upstream.connections > 1:
            await anyio.sleep(0.01)


async def test_an_endpoint_that_breaks_off_is_told_in_the_stream(
    box: Box, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.stream([sse(chunk({"content": "a"})), RESET])
    answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": True})
    assert '"error"' in answer.text
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nx-a: ", b"x"),
        (b"HTTP/1.1 200 ", b"x"),
        (b"", b"x"),
    ],
    ids=["headers", "a header", "a reason", "noise"],
)
async def test_a_head_without_an_end_is_given_up(
    box: Box, upstream: ScriptedServer, start: bytes, more: bytes
) -> None:
    upstream.reply = Reply(raw_head=start, parts=[more * 50_000] * 50, framing="close")
    with anyio.fail_after(5):
        answer = await box.http.post("/v1/chat/completions", json=ASK)
    assert answer.status_code == 502
    assert "no HTTP, or longer than is read" in answer.json()["error"]["message"]
    assert len(upstream.requests) == 1
