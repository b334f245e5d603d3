"""A request to the gateway byte by byte, and the head of a server that is simple."""

import asyncio
from typing import Any

from tests.conftest import Box

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}


async def raw_request(box: Box, body: bytes, *, path: str = "/v1/chat/completions") -> Any:
    """A connection on which the request has been sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(box.url.rpartition(":")[2]))
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {box.token}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


def http_1_0(kind: str) -> bytes:
    """The head of a simple server, which ends its answer by hanging up."""
    return f"HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\nServer: simple\r\n\r\n".encode()
