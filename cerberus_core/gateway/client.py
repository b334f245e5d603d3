"""The client's side of one request: its head, its pieces, its errors, in its own words."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from cerberus_core.errors import CerberusError
from cerberus_core.platform import Clock

from .answers import JSON_TYPE, status_of
from .holding import Holding
from .live import Live
from .options import Options
from .retry import retry_hint
from .sink import Header, Sink
from .upstream_errors import KeptStatus
from .wires.dialect import Dialect

LEAST_S = 0.001
EVENTS: Header = (b"content-type", b"text/event-stream; charset=utf-8")


@runtime_checkable
class Voice(Protocol):
    """A stream in which nothing may stand that isn't of its own kind."""

    def keep_alive(self) -> bytes: ...

    def failed(self, error: CerberusError) -> bytes: ...


class Client:
    """Who asked. Its stream's head is held until there is an answer, or for `hold_s`."""

    def __init__(
        self, sink: Sink, dialect: Dialect, live: Live, options: Options, clock: Clock
    ) -> None:
        self.push = sink.push
        self.started = False
        """The head of a stream is out: an error can be no status any more."""
        self.answered = False
        """It has got some of an answer, so that nobody else can give it."""
        self.status: int | None = None
        self.error: str | None = None
        self.quota: Sequence[Header] = ()
        """What a provider says of its limits."""
        self.voice: Voice | None = None
        """A stream whose errors and signs of life are events of its own, once it has begun."""
        self.kind = EVENTS
        self.cuts = False
        """No words can stand in what was begun: it is cut off where it breaks."""
        self._sink = sink
        self._dialect = dialect
        self._live = live
        self._options = options
        self._clock = clock
        self._began = clock.monotonic()

    async def whole(self, status: int, body: bytes, kind: Header = JSON_TYPE) -> None:
        """A whole answer."""
        self.status = status
        self.answered = True
        await self._sink.whole(status, [kind, *self.quota, self._request_id()], body)

    async def piece(self, data: bytes, *, more: bool = True) -> None:
        """A piece of a stream."""
        self.answered = True
        await self._send(data, more)

    async def sign(self, words: str) -> None:
        """A sign of life in a stream."""
        own = self.voice if self.answered else None
        await self._send(self._dialect.sign(words) if own is None else own.keep_alive(), True)

    async def fail(self, error: CerberusError, *, tried: bool = False) -> None:
        """An answer that is an error, or ends in one. `tried`: fallbacks were asked."""
        self.error = error.message
        if self.started and self.cuts:
            self._sink.forget()
            self._sink.cut()
            return
        if self.started:
            own = self.voice
            if own is None:
                await self._send(self._dialect.error_event(error, self._live.id), False)
            else:
                await self._send(own.failed(error), False)
            return
        self.status = status_of(error)
        headers = [JSON_TYPE, self._request_id(), *retry_hint(error, tried=tried)]
        body = error.body if isinstance(error, KeptStatus) else None
        if body is None:
            body = self._dialect.error_body(error, self._live.id)
        await self._sink.whole(self.status, headers, body)

    async def patiently(self, work: Awaitable[None], words: Callable[[], str]) -> None:
        """Wait for `work`; a stream's client gets its head after `hold_s`, then signs of life."""
        if not self._live.stream:
            await work
            return
        async with Holding(self.hold_left(), partial(self._signs, words)):
            await work

    def hold_left(self) -> float:
        """Seconds until the head of a stream is due."""
        return max(LEAST_S, self._began + self._options.hold_s - self._clock.monotonic())

    async def _signs(self, words: Callable[[], str]) -> None:
        while True:
            await self.sign(words())
            await self._clock.sleep(self._options.keepalive_s)

    async def _send(self, data: bytes, more: bool) -> None:
        if not self.started:
            self.started = True
            self.status = 200
            headers: list[Header] = [
                self.kind,
                (b"cache-control", b"no-cache"),
                (b"x-accel-buffering", b"no"),
                self._request_id(),
                *self.quota,
            ]
            await self._sink.start(200, headers)
        await self._sink.piece(data, more)

    def _request_id(self) -> Header:
        return (b"x-request-id", self._live.id.encode())
