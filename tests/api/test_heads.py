"""A request's head is read before anybody is asked for a token: it is bounded."""

import asyncio
import contextlib
from typing import Any

import anyio
import pytest

from cerberus_core.api import protocol
from tests.conftest import Box, StartBox

pytestmark = pytest.mark.anyio


async def connect(box: Box) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(box.url.rpartition(":")[2]))


async def refused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: bytes) -> bool:
    """Whether 400 kB of head are too much, where 64 are allowed."""
    try:
        for _ in range(100):
            writer.write(line)
            await writer.drain()
            await asyncio.sleep(0.001)
        return (await reader.read(20)).startswith(b"HTTP/1.1 431")
    except ConnectionError:
        return True


@pytest.mark.parametrize("start", [b"GET /healthz HTTP/1.1\r\n", b"GET /"])
async def test_an_endless_head_is_refused(start_box: StartBox, start: bytes) -> None:
    async with start_box() as box:
        reader, writer = await connect(box)
        writer.write(start)
        line = b"x" * 4096 if start.endswith(b"/") else b"x-a: " + b"y" * 4000 + b"\r\n"
        assert await refused(reader, writer, line)
        writer.transport.abort()
        assert (await box.http.get("/healthz")).status_code == 200


async def test_a_head_that_does_not_come_is_given_up(
    start_box: StartBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.1)
    async with start_box() as box:
        for said in (b"", b"GET /healthz HTTP/1.1\r\nhost: 127"):
            reader, writer = await connect(box)
            writer.write(said)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 408 ")
            writer.close()


async def test_a_large_body_is_no_head(start_box: StartBox) -> None:
    async with start_box() as box:
        body = b'{"model": "nope", "messages": [{}], "x": "' + b"y" * 500_000 + b'"}'
        answer = await box.http.post("/v1/chat/completions", content=body)
        assert answer.status_code == 404


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/login"])
async def test_a_body_that_stops_coming_is_given_up(
    start_box: StartBox, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(protocol, "BODY_S", 0.1)
    async with start_box() as box:
        reader, writer = await connect(box)
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {box.token}\r\n"
        writer.write(head.encode() + b'content-length: 100\r\n\r\n{"model": ')
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_an_idle_connection_is_closed_without_a_word(
    start_box: StartBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = protocol.Protocol.__init__

    def hasty(self: protocol.Protocol, *args: Any, **more: Any) -> None:
        real(self, *args, **more)
        self.timeout_keep_alive = 0.1  # type: ignore[assignment]

    monkeypatch.setattr(protocol.Protocol, "__init__", hasty)
    async with start_box() as box:
        reader, writer = await connect(box)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.count(b"HTTP/1.1") == 1
        writer.close()


@pytest.mark.parametrize("path", ["/api/login", "/v1/chat/completions"])
async def test_trailers_without_an_end_are_given_up_and_kept_by_nobody(
    start_box: StartBox, path: str
) -> None:
    async with start_box() as box:
        reader, writer = await connect(box)
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {box.token}\r\n"
        writer.write(head.encode() + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
        with anyio.fail_after(5), contextlib.suppress(ConnectionError):
            for _ in range(200):
                writer.write(b"x-a: " + b"y" * 4000 + b"\r\n")
                await writer.drain()
                if reader.at_eof():
                    break
            await reader.read()
        assert writer.is_closing() or reader.at_eof()
        writer.transport.abort()


async def test_a_trailer_is_no_header_of_the_request(start_box: StartBox) -> None:
    async with start_box() as box:
        reader, writer = await connect(box)
        body = b'{"model": "nope", "messages": [1]}'
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
        writer.write(
            head.encode()
            + b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(body), body)
            + f"authorization: Bearer {box.token}\r\n\r\n".encode()
        )
        assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
        writer.close()
