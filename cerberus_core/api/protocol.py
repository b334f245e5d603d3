"""uvicorn's HTTP protocol with a short way to the gateway.

Parsing, pipelining and shutdown are uvicorn's. Added are limits on slow and
large heads, and what the hot path needs of a server: an answer written without
ASGI's messages, a callback when the client leaves (`cycles.Cycle`), and for
an ordinary POST to the gateway no ASGI at all (`cycles.Call`).
"""

import asyncio
import logging
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from cerberus_core.gateway import Gateway
from cerberus_core.gateway.request import REQUIRED
from cerberus_core.gateway.sink import EXTENSION
from cerberus_core.platform import Deadline

from .cycles import Call, Cycle
from .guard import Guard

MAX_HEAD = 64 << 10
"""Bytes of a request's line and headers."""
MAX_PIPELINED = 8
"""Requests sent ahead; with more of them waiting, nothing is read."""
HEAD_S = 30.0
"""Seconds for a head to come."""
BODY_S = 60.0
"""Seconds of silence in the middle of a body."""
STRAIGHT_BODY = 1 << 20
"""A larger body is read through ASGI, with its flow control."""

_PATHS = {path.encode(): path for path in REQUIRED}

# Warnings here ("invalid request") are anybody's to cause: only errors are worth a line.
_log = logging.getLogger("cerberus.http")
_log.setLevel(logging.ERROR)


class Protocol(HttpToolsProtocol):
    """Gives each request a `Cycle`, and tells it when its client has left."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.logger = _log
        app: Any = self.app
        self._guard: Guard | None = app if isinstance(app, Guard) else None
        self._gateway: Gateway | None = app.gateway if isinstance(app, Guard) else None
        self._limit = Deadline(self.loop, self._out_of_time)

    running: RequestResponseCycle | None = None
    _reads: Literal["nothing", "head", "body"] = "head"
    _unread = 0
    """Bytes since the last that were part of a body."""
    _replays = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit.set(HEAD_S)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self._unread > MAX_HEAD and self._reads != "nothing":
            # In a body these are trailers, or the framing of chunks.
            self._give_up(431, b"The head of the request is too large")

    # What is read, and how long it may take.

    def on_message_begin(self) -> None:
        self._reads = "head"
        self._unread = 0
        self._limit.set(HEAD_S)
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reads != "head":
            return  # a trailer, which nobody wants
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._reads = "body"
        self._unread = 0
        self._limit.set(BODY_S)
        self._replays = self.parser.should_upgrade() and not self._should_upgrade()
        if self._replays or self._goes_straight():
            return
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()  # makes the scope, and would forget the head
        self.url, self.headers, self.expect_100_continue = url, headers, expects
        self.scope["headers"] = headers
        super().on_headers_complete()
        cycle: Any = self.cycle
        if type(cycle) is RequestResponseCycle:
            cycle.__class__ = Cycle
            extensions: Any = {EXTENSION: cycle}
            self.scope["extensions"] = extensions
        if 0 < len(self.pipeline) <= MAX_PIPELINED:
            self.flow.resume_reading()  # a client's leaving is only read where one reads

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._limit.set(BODY_S)
        if type(self.cycle) is Call:
            self.cycle.pieces.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._replays:
            return
        self._reads = "nothing"
        if type(self.cycle) is Call:
            self._limit.clear()
            self._start(self.cycle)
            return
        super().on_message_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._limit.set(self.timeout_keep_alive)
        else:
            self._limit.clear()

    def _upgrade(self, rest: bytes) -> None:
        """To a WebSocket, or not: a server may pass over what it doesn't speak (RFC 9110, 7.8).

        The parser takes a body for the other protocol's, so the request is read
        again without the offer.
        """
        if not self._replays:
            self.handle_websocket_upgrade()
            return
        old, headers = self.parser, self.headers
        version = old.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (old.get_method(), self.url, version)]
        lines += [b"%s: %s" % one for one in headers if one[0] not in (b"upgrade", b"connection")]
        if any(name == b"connection" and b"close" in value.lower() for name, value in headers):
            lines.append(b"connection: close")
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.data_received(b"\r\n".join([*lines, b"", rest]))

    def handle_websocket_upgrade(self) -> None:
        self._limit.close()  # from here on the connection is another protocol's
        super().handle_websocket_upgrade()

    def _unset_keepalive_if_required(self) -> None:
        """One limit serves all that is waited for."""

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._reads == "nothing":
            self._limit.set(self.timeout_keep_alive)

    def _out_of_time(self) -> None:
        if self.flow.read_paused:
            self._limit.set(BODY_S)  # it is we who don't read
        elif self._reads == "nothing":
            self.transport.close()
        else:
            self._give_up(408, b"The %s of the request is too slow" % self._reads.encode())

    def _give_up(self, status: int, why: bytes) -> None:
        cycle = self.cycle
        if self._reads == "body" and cycle is not None and cycle.response_started:
            self.transport.close()  # it has its answer
        elif not self.transport.is_closing():
            self.transport.write(
                STATUS_LINE[status]
                + b"content-type: text/plain\r\nconnection: close\r\n"
                + b"content-length: %d\r\n\r\n%s" % (len(why), why)
            )
            self.transport.close()

    # The short way: no scope, no messages, and the task begins when the body is whole.

    def _goes_straight(self) -> bool:
        """Make a `Call` of this request if it is as ordinary as nearly all are."""
        path = _PATHS.get(self.url)
        if path is None or self._guard is None or self.expect_100_continue:
            return False
        before: RequestResponseCycle | None = self.cycle
        if self.pipeline or (before is not None and not before.response_complete):
            return False
        parser = self.parser
        if (
            parser.get_method() != b"POST"
            or parser.get_http_version() != "1.1"
            or parser.should_upgrade()
        ):
            return False
        length = next((value for name, value in self.headers if name == b"content-length"), None)
        if length is None or int(length) > STRAIGHT_BODY:
            return False
        principal = self._guard.admits(path, self.headers)
        if principal is None:
            return False
        self.cycle = Call(
            path,
            self.headers,
            principal,
            transport=self.transport,
            flow=self.flow,
            default_headers=self.server_state.default_headers,
            keep_alive=parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        return True

    def _start(self, call: Call) -> None:
        assert self._gateway is not None
        pieces = call.pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.running = call
        answer = self._gateway.answer(call.path, call.headers, body, call, call.principal)
        task = self.loop.create_task(answer)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("The gateway failed", exc_info=error)
            if isinstance(self.running, Cycle) and not self.running.response_started:
                self._give_up(500, b"Internal Server Error")
            self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Not always `self.cycle`: a client may have sent its next request already.
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._limit.close()
        self.pipeline.clear()
        cycle = self.running
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if isinstance(cycle, Cycle):
                cycle.hung_up()
