"""An endpoint whose model list a test writes down."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from cerberus_core.testing import Listener


class Listing:
    """Answers every GET with `status` and `body`, and keeps the headers it was sent."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b'{"data": []}'
        self.more = ""
        self.asked: list[dict[str, str]] = []
        self.base_url = ""
        self.stream: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None
        """Writes the whole answer, head and all, in place of the above."""

    def models(self, *rows: Any) -> None:
        self.body = json.dumps({"object": "list", "data": rows}).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.asked.append({"": first, **headers})
        if self.stream is not None:
            await self.stream(writer)
            return
        writer.write(
            f"HTTP/1.1 {self.status} X\r\ncontent-length: {len(self.body)}\r\n{self.more}"
            "connection: close\r\n\r\n".encode()
            + self.body
        )
        await writer.drain()


@pytest.fixture
async def listing() -> AsyncIterator[Listing]:
    listing = Listing()
    async with Listener(listing.serve) as listener:
        listing.base_url = f"{listener.url}/v1"
        yield listing
