"""The server's own way out for the gateway, and the one over plain ASGI, on raw sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import h11
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cerberus_core.api import server
from cerberus_core.api.cycles import Cycle
from cerberus_core.gateway.sink import AsgiSink
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_answer, chat_chunks, chunk, sse
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**ASK, "stream": True}


@pytest.fixture
def sinks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which kind of sink served, one name for each answer."""
    used: list[str] = []

    def noted(cls: Any, method: str) -> None:
        real = getattr(cls, method)

        async def wrapper(self: Any, *arguments: Any) -> None:
            used.append(f"{cls.__name__}.{method}")
            await real(self, *arguments)

        monkeypatch.setattr(cls, method, wrapper)

    for cls in (Cycle, AsgiSink):
        noted(cls, "whole")
        noted(cls, "start")
    return used


@pytest.fixture
async def plain(
    start_box: StartBox, upstream: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Box]:
    """A daemon on a server that offers nothing beyond ASGI."""
    monkeypatch.setattr(server, "Protocol", HttpToolsProtocol)
    async with start_box(endpoint(upstream)) as box:
        yield box


def request_bytes(
    box: Box, body: Any = None, *, method: str = "POST", path: str = "", version: str = "1.1"
) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path or '/v1/chat/completions'} HTTP/{version}\r\nhost: 127.0.0.1\r\n"
        f"authorization: Bearer {box.token}\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


async def connect(box: Box) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(box.url.rpartition(":")[2]))


async def read_answers(reader: asyncio.StreamReader, methods: list[str]) -> list[Any]:
    """Status and body of one answer for each method, read strictly."""
    strict = h11.Connection(h11.CLIENT)
    answers: list[Any] = []
    with anyio.fail_after(10):
        for method in methods:
            strict.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
            strict.send(h11.EndOfMessage())
            status, headers, body = 0, {}, b""
            while True:
                event = strict.next_event()
                if event is h11.NEED_DATA:
                    strict.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Response):
                    status, headers = event.status_code, dict(event.headers)
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
            answers.append((status, headers, body))
            strict.start_next_cycle()
    return answers


async def test_the_daemon_offers_its_own_sink(
    box: Box, upstream: ScriptedServer, sinks: list[str]
) -> None:
    assert (await box.http.post("/v1/chat/completions", json=ASK)).status_code == 200
    assert (await box.http.post("/v1/chat/completions", json=STREAM)).status_code == 200
    assert (await box.http.get("/v1/models")).status_code == 200
    assert sinks == ["Cycle.whole", "Cycle.start", "Cycle.whole"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_of_http_1_0_reads_to_the_end_of_the_connection(
    box: Box, upstream: ScriptedServer, stream: bool
) -> None:
    upstream.reply = (
        Reply.stream(chat_chunks(["Hel", "lo"])) if stream else Reply.json(chat_answer("x"))
    )
    reader, writer = await connect(box)
    writer.write(request_bytes(box, STREAM if stream else ASK, version="1.0"))
    with anyio.fail_after(5):
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    assert b" 200 " in head.splitlines()[0]
    assert b"transfer-encoding" not in head.lower()
    assert body.endswith(b"[DONE]\n\n") if stream else json.loads(body)["choices"]


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/up/m", "/v1/models/up/nope"])
async def test_head_tells_what_get_would_and_sends_no_body(box: Box, path: str) -> None:
    reader, writer = await connect(box)
    writer.write(request_bytes(box, method="HEAD", path=path))
    writer.write(request_bytes(box, method="GET", path=path))
    head, get = await read_answers(reader, ["HEAD", "GET"])
    writer.close()
    assert head[0] == get[0]
    assert head[2] == b""
    assert head[1][b"content-length"] == str(len(get[2])).encode()


@pytest.mark.parametrize("first_stream", [False, True])
async def test_two_requests_sent_at_once_are_answered_whole_and_in_order(
    box: Box, upstream: ScriptedServer, first_stream: bool
) -> None:
    bodies = [
        {**ASK, "messages": [{"role": "user", "content": text}], "stream": stream}
        for text, stream in (("first", first_stream), ("second", False))
    ]
    reader, writer = await connect(box)
    writer.write(b"".join(request_bytes(box, body) for body in bodies))
    first, second = await read_answers(reader, ["POST", "POST"])
    writer.close()
    assert (first[0], second[0]) == (200, 200)
    assert b'"first"' in first[2]
    assert b'"second"' in second[2]
    assert len(await box.records(2)) == 2
    assert [received.json()["messages"][0]["content"] for received in upstream.requests] == [
        "first",
        "second",
    ]


async def test_g15_a_client_that_leaves_takes_its_waiting_requests_along(
    box: Box, upstream: ScriptedServer
) -> None:
    piece, wait = sse(chunk({"content": "a"})), Wait()
    upstream.reply = Reply.stream([piece, wait, *[piece] * 20, Wait()])
    reader, writer = await connect(box)
    writer.write(request_bytes(box, STREAM) * 2)
    with anyio.fail_after(5):
        await reader.readuntil(b'"a"')
        writer.transport.abort()
        wait.go()
        await upstream.requests[0].closed.wait()
    assert (await box.record()).status == 499
    upstream.reply = Reply.json(chat_answer("x"))
    assert (await box.http.post("/v1/chat/completions", json=ASK)).status_code == 200
    assert len(upstream.requests) == 2  # the one that waited was never begun


async def test_a_plain_server_serves_a_whole_answer_and_a_stream(
    plain: Box, upstream: ScriptedServer, sinks: list[str]
) -> None:
    upstream.reply = Reply.json(chat_answer("x"))
    whole = await plain.http.post("/v1/chat/completions", json=ASK)
    assert whole.json()["choices"][0]["message"]["content"] == "x"
    assert whole.headers["content-length"] == str(len(whole.content))
    upstream.reply = Reply.stream(chat_chunks(["Hel", "lo"]))
    stream = await plain.http.post("/v1/chat/completions", json=STREAM)
    assert '"Hel"' in stream.text
    assert stream.text.endswith("[DONE]\n\n")
    assert set(sinks) == {"AsgiSink.whole", "AsgiSink.start"}


@pytest.mark.parametrize("stream", [False, True])
async def test_g15_a_plain_server_tells_of_a_client_that_leaves(
    plain: Box, upstream: ScriptedServer, stream: bool
) -> None:
    wait = Wait()
    upstream.reply = Reply.stream([sse(chunk({"content": "a"}))] * stream + [wait])
    reader, writer = await connect(plain)
    writer.write(request_bytes(plain, STREAM if stream else ASK))
    received = await upstream.arrived()
    if stream:
        await reader.readuntil(b'"a"')
    await wait.reached.wait()
    writer.close()
    with anyio.fail_after(1):
        await received.closed.wait()
    record = await plain.record()
    assert record.status == 499
    assert "client left" in (record.error or "")
