"""One request and its answer on the wire: a `gateway.sink.Sink` over uvicorn's connection."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from cerberus_core.access import Principal
from cerberus_core.gateway.sink import Header


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

    def cut(self) -> None:
        self.transport.close()

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


class _NoEvent:
    """For who waits for nothing."""

    def set(self) -> None:
        pass


class Call(Cycle):
    """A POST to the gateway that needs nothing of ASGI: its body is gathered here."""

    scope: Any = {"method": "POST", "http_version": "1.1"}
    message_event: Any = _NoEvent()
    disconnected = False
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    waiting_for_100_continue = False

    def __init__(
        self,
        path: str,
        headers: Sequence[Header],
        principal: Principal,
        *,
        transport: asyncio.Transport,
        flow: FlowControl,
        default_headers: list[Header],
        keep_alive: bool,
        on_response: Callable[..., None],
    ) -> None:
        self.path = path
        self.headers = headers
        self.principal = principal
        self.pieces: list[bytes] = []
        self.transport = transport
        self.flow = flow
        self.default_headers = default_headers
        self.keep_alive = keep_alive
        self.on_response = on_response
