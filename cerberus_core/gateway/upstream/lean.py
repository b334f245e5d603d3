"""A small HTTP/1.1 client on httptools, for engines on loopback.

It speaks what such engines speak: plain TCP, a body of known length, answers
framed by length, chunks or the end of the connection. Connections are kept
for the next request; one that the far side closed meanwhile is noticed by its
own event and dropped, and a request that hits the gap between is sent once more.
"""

import asyncio
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

import httptools

from cerberus_core.platform import Deadline

from .interface import Answer, Client, ConnectionLost, Target

HIGH_WATER = 256 << 10
"""Bytes read ahead of a slow client before reading stops."""
MAX_HEAD = 256 << 10
"""Bytes of an answer's head, those of interim answers before it included."""
CONNECT_S = 5.0
RESEND_S = 1.0
"""A kept connection that closes so soon after a request never read it."""
IDLE_CONNECTIONS = 64
"""Kept for each address."""

Address = tuple[str, int]


class LeanClient(Client):
    """One pool for each address."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[_Connection]] = {}
        self._open: set[_Connection] = set()

    async def open(self, target: Target, body: bytes, timeout: float | None = None) -> Answer:
        if target.prepared is None:
            target.prepared = _prepare(target)
        address, start = target.prepared
        head = b"%scontent-length: %d\r\n\r\n" % (start, len(body))
        while True:
            connection = self._take_idle(address)
            reused = connection is not None
            if connection is None:
                connection = await self._connect(address)
            try:
                await connection.send(head, body, timeout)
            except ConnectionLost:
                if reused and connection.never_read:
                    continue
                raise
            return connection

    async def aclose(self) -> None:
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def _take_idle(self, address: Address) -> "_Connection | None":
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.alive:
                return connection
        return None

    async def _connect(self, address: Address) -> "_Connection":
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


def _prepare(target: Target) -> tuple[Address, bytes]:
    """Address, and head up to the length."""
    parts = urlsplit(target.url)
    lines = [f"POST {parts.path} HTTP/1.1", f"host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in target.headers.items()]
    start = "\r\n".join([*lines, ""]).encode("latin-1")
    return (parts.hostname or "", parts.port or 80), start


class _Connection(asyncio.Protocol, Answer):
    """A connection, and the answer that is being read from it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, client: LeanClient, address: Address
    ) -> None:
        self.address = address
        self.alive = True
        self.never_read = False
        """It closed without a byte right after the request was sent."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self._loop = loop
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._limit = Deadline(loop, self._out_of_time)
        self._sent_at = 0.0
        self._head_bytes = 0
        self._head_done: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[bool] | None = None
        self._take: Callable[[bytes], bool] | None = None
        self._wait_s = 0.0
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
        self.status = self._head_bytes = self._size = 0
        self.headers = {}
        self._complete = self._keep = False
        self._take = None
        done = self._head_done = self._loop.create_future()
        self._sent_at = self._loop.time()
        if timeout is not None:
            self._limit.set(timeout)
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
            self._limit.clear()

    async def read(self, timeout: float) -> bytes | None:
        while not self._pieces:
            if self._complete:
                return b""
            if self._broken is not None:
                raise self._loss()
            self._reader = self._loop.create_future()
            self._wait_s = timeout
            self._limit.set(timeout)
            try:
                if not await self._reader:
                    return None
            finally:
                self._limit.clear()
                self._reader = None
        pieces, self._pieces, self._size = self._pieces, [], 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return _joined(pieces)

    def whole(self) -> bytes | None:
        if not self._complete:
            return None
        pieces, self._pieces, self._size = self._pieces, [], 0
        return _joined(pieces)

    def pass_to(self, take: Callable[[bytes], bool]) -> None:
        self._take = take

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
        if self._complete:
            self.abort()  # bytes that nobody asked for
            return
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(f"the answer is not HTTP: {error}")
            return
        if not self.status:
            if self._head_bytes > MAX_HEAD:
                self._break(f"the head of its answer is larger than {MAX_HEAD >> 10} KiB")
            return
        if self._reader is not None:
            self._hand_on(self._reader)
        elif self._size > HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _hand_on(self, reader: "asyncio.Future[bool]") -> None:
        """Wake the task that waits in `read`, unless `take` can spare it that."""
        pieces = self._pieces
        if reader.done() or not (pieces or self._complete):
            return
        if self._take is not None and not self._complete and self._take(_joined(pieces)):
            self._pieces, self._size = [], 0
            self._limit.set(self._wait_s)
        elif not reader.done():  # `take` may have found that the client is gone
            reader.set_result(True)

    def _break(self, why: str) -> None:
        self._broken = why
        self._wake()
        self.abort()

    def _out_of_time(self) -> None:
        if self._head_done is not None and not self._head_done.done():
            self._head_done.set_exception(TimeoutError())
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(False)

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        self._limit.close()
        self._client._lost(self)
        if not self._complete:
            self.never_read = not self._head_bytes and self._loop.time() - self._sent_at < RESEND_S
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
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(True)

    # As httptools' callbacks. What follows a complete answer is nobody's.

    def on_message_begin(self) -> None:
        if self._complete:
            self._keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:  # else a trailer
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        status = self._parser.get_status_code()
        if status < 200:  # 100 Continue, 103 Early Hints: the real head comes
            self.headers = {}
            return
        self.status = status
        self._keep = self._parser.should_keep_alive()
        if self._head_done is not None and not self._head_done.done():
            self._head_done.set_result(None)

    def on_body(self, body: bytes) -> None:
        if not self._complete:
            self._pieces.append(body)
            self._size += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self._complete = True


def _joined(pieces: list[bytes]) -> bytes:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
