"""A small HTTP/1.1 client on httptools, for engines on loopback.

It speaks what such engines speak: plain TCP, a body of known length, answers
framed by length, chunks or the end of the connection. Connections are kept
for the next request; one that the far side closed meanwhile is noticed by its
own event and dropped, and a request that hits the gap between is sent once more.
"""

import asyncio
from typing import cast
from urllib.parse import urlsplit

import attrs
import httptools

from .interface import Answer, Client, ConnectionLost, Request

HIGH_WATER = 256 << 10
"""Bytes read ahead of a slow client before reading stops."""
CONNECT_S = 5.0
IDLE_CONNECTIONS = 64
"""Kept for each address."""
MAX_STARTS = 256


class LeanClient(Client):
    """One pool for each address."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._starts: dict[tuple[str, int], tuple[Request, tuple[str, int], bytes]] = {}

    async def open(self, request: Request, timeout: float | None = None) -> Answer:
        address, start = self._start_of(request)
        head = b"%scontent-length: %d\r\n\r\n" % (start, len(request.body))
        while True:
            connection = self._take_idle(address)
            reused = connection is not None
            if connection is None:
                connection = await self._connect(address)
            try:
                await connection.send(head, request.body, timeout)
            except ConnectionLost:
                if reused and not connection.got_bytes:
                    continue  # it was closed while idle; nothing was answered on it
                raise
            return connection

    async def aclose(self) -> None:
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def _start_of(self, request: Request) -> tuple[tuple[str, int], bytes]:
        """Address, and head up to the length; kept for the headers object it was made of."""
        key = (request.url, id(request.headers))
        known = self._starts.get(key)
        if known is None or known[0].headers is not request.headers:
            parts = urlsplit(request.url)
            address = (parts.hostname or "", parts.port or 80)
            if len(self._starts) >= MAX_STARTS:
                self._starts.clear()
            known = (request, address, _start(parts.path, parts.netloc, request))
            self._starts[key] = (attrs.evolve(request, body=b""), *known[1:])
        return known[1], known[2]

    def _take_idle(self, address: tuple[str, int]) -> "_Connection | None":
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.alive:
                return connection
        return None

    async def _connect(self, address: tuple[str, int]) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                _, protocol = await loop.create_connection(
                    lambda: _Connection(loop, self, address), address[0], address[1]
                )
        except (OSError, TimeoutError) as error:
            raise ConnectionLost(
                f"no connection to {address[0]}:{address[1]}: {error or 'timed out'}",
                before_answer=True,
            ) from None
        return protocol

    def _made(self, connection: "_Connection") -> None:
        self._open.add(connection)

    def _lost(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        idle = self._idle.get(connection.address)
        if idle and connection in idle:
            idle.remove(connection)

    def _give_back(self, connection: "_Connection") -> None:
        idle = self._idle.setdefault(connection.address, [])
        if len(idle) < IDLE_CONNECTIONS:
            idle.append(connection)
        else:
            connection.abort()


def _start(path: str, netloc: str, request: Request) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"host: {netloc}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    return "\r\n".join([*lines, ""]).encode("latin-1")


class _Connection(asyncio.Protocol, Answer):
    """A connection, and the answer that is being read from it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, client: LeanClient, address: tuple[str, int]
    ) -> None:
        self.address = address
        self.alive = True
        self.got_bytes = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self._loop = loop
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._head_done: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[bool] | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._complete = True
        self._keep = False
        self._paused = False
        self._broken: str | None = None

    # As an answer.

    async def send(self, head: bytes, body: bytes, timeout: float | None) -> None:
        """Write the request and wait until the head of the answer is there."""
        assert self._transport is not None
        self.got_bytes = False
        self.status = 0
        self.headers = {}
        self._complete = self._keep = False
        self._pieces = []
        self._size = 0
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        done = self._head_done = self._loop.create_future()
        alarm = None if timeout is None else self._loop.call_later(timeout, _time_out, done)
        try:
            if not self.alive:
                raise self._loss()
            if len(body) < 65536:
                self._transport.write(head + body)
            else:
                self._transport.write(head)
                self._transport.write(body)
            await done
        except BaseException:
            self.abort()
            raise
        finally:
            self._head_done = None
            if alarm is not None:
                alarm.cancel()

    async def read(self, timeout: float) -> bytes | None:
        while not self._pieces:
            if self._complete:
                return b""
            if self._broken is not None:
                raise self._loss()
            self._reader = self._loop.create_future()
            alarm = self._loop.call_later(timeout, _resolve, self._reader, False)
            try:
                if not await self._reader:
                    return None
            finally:
                alarm.cancel()
                self._reader = None
        pieces, self._pieces, self._size = self._pieces, [], 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        if self._complete and self._keep and self.alive and not self._pieces:
            self._client._give_back(self)
            return
        self.abort()

    def abort(self) -> None:
        """Hang up at once: the engine notices and stops."""
        if self._transport is not None:
            self._transport.abort()
        self.alive = False

    def _loss(self) -> ConnectionLost:
        return ConnectionLost(
            self._broken or "the connection was closed", before_answer=self.status == 0
        )

    # As a protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._client._made(self)

    def data_received(self, data: bytes) -> None:
        self.got_bytes = True
        if self._parser is None or self._complete:
            self.abort()  # bytes that nobody asked for
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._broken = f"the answer is not HTTP: {error}"
            self._wake()
            self.abort()
            return
        if self._size > HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        if self._pieces or self._complete:
            self._wake()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        self._client._lost(self)
        if not self._complete:
            if self.status and self._ends_with_connection and exc is None:
                self._complete = True
            else:
                self._broken = self._broken or (
                    f"the connection broke: {getattr(exc, 'strerror', None) or exc}"
                    if exc
                    else "the connection was closed"
                )
        self._wake()

    @property
    def _ends_with_connection(self) -> bool:
        return "content-length" not in self.headers and (
            "chunked" not in self.headers.get("transfer-encoding", "").lower()
        )

    def _wake(self) -> None:
        if self._head_done is not None and not self._head_done.done():
            if self.status:
                self._head_done.set_result(None)
            elif self._broken is not None:
                self._head_done.set_exception(self._loss())
        if self._reader is not None:
            _resolve(self._reader, True)

    # As httptools' callbacks.

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:  # 100 Continue, 103 Early Hints: the real head comes
            self.headers = {}
            return
        self.status = status
        self._keep = self._parser.should_keep_alive()
        if self._head_done is not None and not self._head_done.done():
            self._head_done.set_result(None)

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self._complete = True


def _time_out(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def _resolve(future: "asyncio.Future[bool]", value: bool) -> None:
    if not future.done():
        future.set_result(value)
