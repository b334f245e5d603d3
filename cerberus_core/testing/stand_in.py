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
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

import attrs

from .listener import Listener

Said = Callable[[int], Awaitable[None]]


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

    async def stream(self, kind: str, pieces: Iterable[str], said: Said | None = None) -> None:
        """In chunks, one for each piece; `said` is awaited after each, with its number."""
        head = f"HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n"
        self._writer.write(f"{head}connection: close\r\n\r\n".encode())
        for number, piece in enumerate(pieces):
            data = piece.encode()
            self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await self._writer.drain()
            if said is not None:
                await said(number)
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
        self._listener = Listener(self._one)

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
        await self._listener.__aenter__()
        self.url = self._listener.url
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """As a server that ends: its port is closed."""
        await self._listener.stop()

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


class Talker(StandIn):
    """One that holds models in memory and says "Hello" at `/v1/chat/completions`."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: Counter[str] = Counter()
        """Model → how often it was brought into memory."""
        self.load_s = 0.0
        """What a load takes."""
        self.word_s = 0.0
        """What a word of an answer takes."""
        self.hold: Callable[[Any, int], Awaitable[None]] | None = None
        """Awaited after each word of a stream, with what was asked and the word's number."""
        self.answering: Counter[str] = Counter()
        self.hurt: list[str] = []
        """Models that were to leave while they answered."""

    async def talk(self, out: Answer, body: Any) -> None:
        """Answer a chat, in two words."""
        self.answering[body["model"]] += 1
        try:
            await self._say(out, body)
        finally:
            self.answering[body["model"]] -= 1

    def leaves(self, model: str) -> None:
        """Note whether it was in use."""
        if self.answering[model]:
            self.hurt.append(model)

    async def _say(self, out: Answer, body: Any) -> None:
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body["model"]}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        choice: dict[str, Any] = {"index": 0, "finish_reason": None}
        if not body.get("stream"):
            await asyncio.sleep(self.word_s * 2)
            message = {"role": "assistant", "content": "Hello"}
            whole = choice | {"message": message, "finish_reason": "stop"}
            told = {**base, "object": "chat.completion", "choices": [whole], "usage": usage}
            await out.json(told)
            return
        pieces: list[dict[str, Any]] = [
            {"choices": [choice | {"delta": {"content": word}}]} for word in ("Hel", "lo")
        ]
        pieces.append({"choices": [choice | {"delta": {}, "finish_reason": "stop"}]})
        if body.get("stream_options", {}).get("include_usage"):
            pieces.append({"choices": [], "usage": usage})

        async def said(number: int) -> None:
            await asyncio.sleep(self.word_s)
            if self.hold is not None:
                await self.hold(body, number)

        events = [f"data: {json.dumps(base | piece)}\n\n" for piece in pieces]
        await out.stream("text/event-stream", [*events, "data: [DONE]\n\n"], said)
