"""Where an answer goes: to any ASGI server, or straight to one that offers more.

A server may put an object with these methods into
`scope["extensions"]["cerberus.sink"]`; it then writes without ASGI's messages
and tells of a client's leaving by a callback. Elsewhere `AsgiSink` does the
same with what ASGI has.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

Header = tuple[bytes, bytes]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

EXTENSION = "cerberus.sink"
WATCH_AFTER_S = 0.05
"""A request over by then is not watched: a task for each would cost as much as parsing it."""


class Sink(Protocol):
    """One answer. Either `whole`, or `start` and then `piece` until `more` is false."""

    async def whole(self, status: int, headers: Sequence[Header], body: bytes) -> None: ...

    async def start(self, status: int, headers: Sequence[Header]) -> None: ...

    async def piece(self, data: bytes, more: bool) -> None: ...

    def push(self, data: bytes) -> bool:
        """A piece with more to come, written at once; False if that can't be: use `piece`."""
        ...

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call `callback` once if the client hangs up before the answer is complete."""
        ...

    def forget(self) -> None:
        """Don't call it any more."""
        ...

    def cut(self) -> None:
        """Hang up on an answer that was begun, so that nobody takes it for whole."""
        ...


class AsgiSink:
    """A `Sink` over plain ASGI. The request's body must have been read."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Future[dict[str, Any]] | None = None
        self._callback: Callable[[], None] | None = None

    async def whole(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        length = (b"content-length", b"%d" % len(body))
        await self.start(status, [*headers, length])
        await self.piece(body, False)

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def piece(self, data: bytes, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def push(self, data: bytes) -> bool:
        return False

    def when_gone(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._watch)

    def forget(self) -> None:
        self._callback = None
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def cut(self) -> None:
        """A server hangs up by itself where an answer has no end."""

    def _watch(self) -> None:
        # The server's `receive` returns once more when the client hangs up.
        self._waiting = asyncio.ensure_future(self._receive())
        self._waiting.add_done_callback(self._hung_up)

    def _hung_up(self, waiting: "asyncio.Future[dict[str, Any]]") -> None:
        if not waiting.cancelled() and self._callback is not None:
            self._callback()


def sink_of(scope: dict[str, Any], receive: Receive, send: Send) -> Sink:
    """The server's own sink where it offers one."""
    extensions = scope.get("extensions")
    own: Sink | None = extensions.get(EXTENSION) if extensions else None
    return own if own is not None else AsgiSink(receive, send)
