"""uvicorn's HTTP protocol with a short way out for the gateway.

Parsing, pipelining, limits and shutdown are uvicorn's. Added is what the hot
path needs of a server (`gateway.sink.Sink`): a whole answer in one write, a
stream's pieces without a message for each, and a callback when the client
leaves, so that no task has to wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from cerberus_core.gateway.sink import EXTENSION, Header

MAX_HEAD = 64 << 10
"""Bytes of a request's line and headers."""
MAX_PIPELINED = 8
"""Requests that a client may send ahead."""
HEAD_S = 30.0
"""Seconds for them to come."""


# Warnings here ("invalid request") are anybody's to cause: only errors are worth a line.
_log = logging.getLogger("cerberus.http")
_log.setLevel(logging.ERROR)


class Cycle(RequestResponseCycle):
    """One request and its answer; a `Sink` beside ASGI's `send`."""

    gone: Callable[[], None] | None = None

    async def whole(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        if self._gone():
            return
        head = self._head(status, headers)
        head.append(b"content-length: %d\r\n\r\n" % len(body))
        if self.scope["method"] != "HEAD":
            head.append(body)
        self.response_started = True
        self.transport.write(b"".join(head))
        self._complete()

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        if self._gone():
            return
        head = self._head(status, headers)
        # A client of HTTP/1.0 reads to the end of the connection.
        self.chunked_encoding = self.scope["http_version"] != "1.0"
        head.append(b"transfer-encoding: chunked\r\n\r\n" if self.chunked_encoding else b"\r\n")
        self.response_started = True
        self.transport.write(b"".join(head))

    async def piece(self, data: bytes, more: bool) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self._gone():
            return
        if self.chunked_encoding:
            data = b"%x\r\n%s\r\n" % (len(data), data) if data else b""
            if not more:
                data += b"0\r\n\r\n"
        self.transport.write(data)
        if not more:
            self._complete()

    def push(self, data: bytes) -> bool:
        if self.flow.write_paused or self._gone():
            return False
        self.transport.write(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked_encoding else data)
        return True

    def when_gone(self, callback: Callable[[], None]) -> None:
        self.gone = callback
        if self.disconnected:
            asyncio.get_running_loop().call_soon(self.hung_up)

    def forget(self) -> None:
        self.gone = None

    def hung_up(self) -> None:
        """The connection is lost: tell whoever asked, once."""
        callback, self.gone = self.gone, None
        if callback is not None:
            callback()

    def _gone(self) -> bool:
        if self.transport.is_closing() and not self.disconnected:
            self.hung_up()
        return self.disconnected or self.transport.is_closing()

    def _head(self, status: int, headers: Sequence[Header]) -> list[bytes]:
        head = [STATUS_LINE[status]]
        for name, value in (*self.default_headers, *headers):
            head += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            head.append(b"connection: close\r\n")
        return head

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class Protocol(HttpToolsProtocol):
    """Gives each request a `Cycle`, and tells it when its client has left."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.logger = _log

    running: RequestResponseCycle | None = None
    _in_head = True
    _head_bytes = 0
    _head_alarm: asyncio.TimerHandle | None = None

    # The head of a request is read before anybody is asked for a token: bounded in size and time.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_alarm = self.loop.call_later(HEAD_S, self._give_up, 408, b"too slow")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head:
            if self._head_alarm is not None:
                self._head_alarm.cancel()
                self._head_alarm = None
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD:
            self._give_up(431, b"too large")
        elif self._head_alarm is None:
            self._head_alarm = self.loop.call_later(HEAD_S, self._give_up, 408, b"too slow")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def _give_up(self, status: int, why: bytes) -> None:
        if not self.transport.is_closing():
            body = b"The head of the request is " + why
            self.transport.write(
                STATUS_LINE[status]
                + b"content-type: text/plain\r\nconnection: close\r\n"
                + b"content-length: %d\r\n\r\n%s" % (len(body), body)
            )
            self.transport.close()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        cycle: Any = self.cycle
        if type(cycle) is RequestResponseCycle:
            cycle.__class__ = Cycle
            extensions: Any = {EXTENSION: cycle}
            self.scope["extensions"] = extensions
        if len(self.pipeline) > MAX_PIPELINED:
            self.transport.close()
        elif self.pipeline:
            self.flow.resume_reading()  # a client's leaving is only read where one reads

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Not always `self.cycle`: a client may have sent its next request already.
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._head_alarm is not None:
            self._head_alarm.cancel()
        self.pipeline.clear()
        cycle = self.running
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if isinstance(cycle, Cycle):
                cycle.hung_up()
