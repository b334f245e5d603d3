"""The base of a stand-in for a model server: real HTTP on loopback, states that tests set.

    class FakeNas(StandIn):
        async def answer(self, asked: Asked, out: Answer) -> None:
            match asked.what:
                case "GET /api/models":
                    await out.json({"models": []})
                case _:
                    await out.write(b"404 page not found", 404)

    async with FakeNas() as fake:
        ...  # fake.url, fake.asked, fake.answers

One request to a connection.
"""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Self

import attrs


@attrs.frozen(kw_only=True)
class Asked:
    """A request."""

    what: str
    """Method and path: `GET /api/models`."""
    headers: dict[str, str]
    body: Any
    """Its JSON; None without a body."""

    @property
    def path(self) -> str:
        return self.what.partition(" ")[2]


@attrs.frozen
class Answer:
    """Where the answer to a request goes."""

    _writer: asyncio.StreamWriter

    async def json(self, value: Any, status: int = 200) -> None:
        await self.write(json.dumps(value).encode(), status, "application/json; charset=utf-8")

    async def write(self, body: bytes, status: int = 200, kind: str = "text/plain") -> None:
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        self._writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
        await self._writer.drain()

    async def stream(self, kind: str, pieces: Iterable[str]) -> None:
        """In chunks, one for each piece."""
        head = f"HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n"
        self._writer.write(f"{head}connection: close\r\n\r\n".encode())
        for piece in pieces:
            data = piece.encode()
            self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await self._writer.drain()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


class StandIn:
    """`async with StandIn() as fake:` serves at `fake.url`; write `answer`."""

    cancels = True
    """What it does for a request ends when its client leaves."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, Any]] = []
        """(method and path, body) of each request."""
        self.answers: dict[str, tuple[int, bytes]] = {}
        """Path → status and body that it answers instead."""
        self._connections: set[asyncio.Task[None]] = set()

    async def answer(self, asked: Asked, out: Answer) -> None:
        """Answer one request."""
        raise NotImplementedError

    async def handle(self, asked: Asked, out: Answer) -> None:
        """Note it, and answer what `answers` has for it, or `answer`."""
        self.asked.append((asked.what, asked.body))
        if asked.path in self.answers:
            status, body = self.answers[asked.path]
            await out.write(body, status)
        else:
            await self.answer(asked, out)

    def bodies(self, what: str) -> list[Any]:
        """Of all requests of a method and path."""
        return [body for asked, body in self.asked if asked == what]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """As a server that ends: its port is closed."""
        self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._one(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        asked = Asked(
            what=f"{method} {path}", headers=headers, body=json.loads(raw) if raw else None
        )
        serving = asyncio.ensure_future(self.handle(asked, Answer(writer)))
        leaving = asyncio.ensure_future(reader.read(1) if self.cancels else asyncio.Event().wait())
        try:
            await asyncio.wait([serving, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (serving, leaving):
                task.cancel()
            await asyncio.wait([serving, leaving])
        if not serving.cancelled():
            serving.result()
