"""A server on loopback that answers what a test wrote down, byte by byte.

    async with ScriptedServer() as server:
        server.reply = Reply.stream(chat_chunks(["Hel", "lo"]))
        ...
        assert server.requests[0].json()["model"] == "m"

It speaks HTTP/1.1 as OpenAI documents its API
(https://platform.openai.com/docs/api-reference/chat), and whatever else a
script makes it say. `python -m cerberus_core.testing.scripted` runs one that
echoes.
"""

import argparse
import asyncio
import contextlib
import json
import re
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import attrs

from .listener import Listener

Framing = Literal["chunked", "length", "close"]

RESET = object()
"""A part that resets the connection."""
CLOSE = object()
"""A part that ends the connection without an error, whatever was promised."""


class Wait:
    """A part that holds the answer back until `go()`; `reached` is set when it is its turn."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._go = asyncio.Event()

    def go(self) -> None:
        self._go.set()

    async def hold(self) -> None:
        self.reached.set()
        await self._go.wait()


@attrs.define(kw_only=True)
class Reply:
    """`parts` are written one after the other: bytes, a `Wait`, `RESET` or `CLOSE`.

    With `framing="length"` the body must be all bytes. `raw_head` replaces the
    whole head of the answer.
    """

    status: int = 200
    headers: Sequence[tuple[str, str]] = (("content-type", "application/json"),)
    parts: Sequence[Any] = ()
    framing: Framing = "chunked"
    raw_head: bytes | None = None

    @classmethod
    def json(cls, value: Any, status: int = 200, **more: Any) -> "Reply":
        """A whole JSON answer."""
        return cls(status=status, parts=[json.dumps(value).encode()], framing="length", **more)

    @classmethod
    def stream(cls, parts: Iterable[Any], **more: Any) -> "Reply":
        """An event stream."""
        more.setdefault("headers", (("content-type", "text/event-stream"),))
        return cls(parts=list(parts), **more)


@attrs.define(kw_only=True)
class Received:
    """A request as it came in."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    closed: asyncio.Event = attrs.field(factory=asyncio.Event)
    """Set when the client hung up before its answer was complete."""

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """The value of a header, None if it was not sent."""
        return next((value for key, value in self.headers if key == name), None)


Script = Reply | Callable[[Received], Reply]


class ScriptedServer:
    """`reply` answers every POST; `models` are listed at `/v1/models`."""

    def __init__(self, reply: Script | None = None, models: Iterable[str] = ("m",)) -> None:
        self.reply: Script = reply or echo
        self.models = list(models)
        self.requests: list[Received] = []
        self._listener = Listener(self._serve)
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> "ScriptedServer":
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.stop()

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def base_url(self) -> str:
        """Ends in `/v1`."""
        return f"{self._listener.url}/v1"

    @property
    def connections(self) -> int:
        """Open now."""
        return self._listener.connections

    async def arrived(self, count: int = 1) -> Received:
        """Wait until `count` POSTs have come; the last of them."""
        while len(self.requests) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self.requests[count - 1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await self._serve_one(reader, writer):
            pass

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = [
            (name.lower(), value.strip()) for name, _, value in (ln.partition(":") for ln in lines)
        ]
        length = int(dict(headers).get("content-length", "0"))
        body = await reader.readexactly(length)
        received = Received(method=method, path=path, headers=headers, body=body)
        if method == "GET":
            rows = [{"id": name, "object": "model"} for name in self.models]
            reply = Reply.json({"object": "list", "data": rows})
        else:
            self.requests.append(received)
            self._arrived.set()
            reply = self.reply(received) if callable(self.reply) else self.reply
        watch = asyncio.ensure_future(reader.read(1))  # a client that sends nothing more

        def hung_up(_: object) -> None:
            if not watch.cancelled() and (watch.exception() or watch.result() == b""):
                received.closed.set()

        watch.add_done_callback(hung_up)
        sending = asyncio.ensure_future(_send(writer, reply))
        try:
            await asyncio.wait((watch, sending), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                return False
            return sending.result() and not watch.done()
        finally:
            sending.cancel()
            watch.remove_done_callback(hung_up)
            if not watch.done():
                watch.cancel()
            await asyncio.gather(watch, sending, return_exceptions=True)
            if not watch.cancelled() and (watch.exception() or watch.result() == b""):
                received.closed.set()


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Write it; whether the connection can be kept."""
    writer.write(reply.raw_head if reply.raw_head is not None else _head(reply))
    for number, part in enumerate(reply.parts, 1):
        if writer.transport.is_closing():
            return False  # the client has heard enough
        if isinstance(part, Wait):
            await writer.drain()
            await part.hold()
        elif part is RESET:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif part is CLOSE:
            await writer.drain()
            return False
        elif reply.framing == "chunked":
            if part:
                writer.write(b"%x\r\n%s\r\n" % (len(part), part))
        else:
            writer.write(part)
        await writer.drain()
        if number < len(reply.parts):
            await asyncio.sleep(0.001)  # so that the network does not join two parts
    if writer.transport.is_closing():
        return False
    if reply.framing == "chunked":
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return reply.framing != "close"


def _head(reply: Reply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} Scripted"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    if reply.framing == "chunked":
        lines.append("transfer-encoding: chunked")
    elif reply.framing == "length":
        lines.append(f"content-length: {sum(len(part) for part in reply.parts)}")
    else:
        lines.append("connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def sse(value: Any) -> bytes:
    """One event holding `value` as JSON, non-ASCII as it is."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def chunk(
    delta: dict[str, Any] | None = None, *, finish: str | None = None, model: str = "m", **more: Any
) -> dict[str, Any]:
    """A `chat.completion.chunk` with one choice."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
        **more,
    }


def chat_chunks(
    pieces: Iterable[str], *, usage: dict[str, Any] | None = USAGE, model: str = "m"
) -> list[bytes]:
    """A good streamed answer, one event for each piece."""
    events = [sse(chunk({"content": piece}, model=model)) for piece in pieces]
    events.append(sse(chunk(finish="stop", model=model)))
    if usage is not None:
        events.append(sse({**chunk(model=model), "choices": [], "usage": usage}))
    return [*events, DONE]


def chat_answer(
    text: str, *, usage: dict[str, Any] | None = USAGE, model: str = "m"
) -> dict[str, Any]:
    """A good whole answer."""
    message = {"role": "assistant", "content": text}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    return answer if usage is None else {**answer, "usage": usage}


def echo(received: Received) -> Reply:
    """Answer with what was asked, streamed if that was asked for; elsewhere than OpenAI a 404."""
    path = received.path.partition("?")[0]
    if not path.endswith(("/completions", "/embeddings")):
        return _error(404, f"There is no POST {path}")
    try:
        asked = received.json()
        if path.endswith("/embeddings"):
            return Reply.json(_embeddings(asked))
        model = str(asked.get("model", "m"))
        if path.endswith("/chat/completions"):
            text = str(asked["messages"][-1]["content"]) if asked.get("messages") else "hello"
            if asked.get("stream"):
                return Reply.stream(chat_chunks(_words(text), model=model))
            return Reply.json(chat_answer(text, model=model))
        text = str(asked.get("prompt", "hello"))
        if asked.get("stream"):
            events = [sse(_completion(word, None, model)) for word in _words(text)]
            return Reply.stream([*events, sse(_completion("", "stop", model)), DONE])
        return Reply.json({**_completion(text, "stop", model), "usage": USAGE})
    except (ValueError, AttributeError, TypeError, LookupError) as error:
        return _error(400, f"That is no request: {error!r}")


def _words(text: str) -> list[str]:
    """Pieces as an engine makes them: a word takes the space before it along."""
    return re.split(r"(?=\s)", text)


def _completion(text: str, finish: str | None, model: str) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return {
        "id": "cmpl-1", "object": "text_completion", "created": 1, "model": model,
        "choices": [choice],
    }  # fmt: skip


def _embeddings(asked: Any) -> dict[str, Any]:
    """A vector for each text: how long it is, twice."""
    given = asked.get("input", "")
    texts = given if isinstance(given, list) else [given]
    rows = [
        {"object": "embedding", "index": index, "embedding": [float(len(str(text)))] * 2}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return {"object": "list", "model": asked.get("model", "m"), "data": rows, "usage": usage}


def _error(status: int, message: str) -> Reply:
    return Reply.json({"error": {"message": message, "type": "invalid_request_error"}}, status)


async def _main() -> None:
    async with ScriptedServer() as server:
        print(server.base_url, flush=True)  # noqa: T201 - a program of its own
        await asyncio.Event().wait()


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m cerberus_core.testing.scripted",
        description="Serves a model `m` on loopback that echoes, prints its base_url, "
        "and runs until Ctrl-C.",
    ).parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
