"""A sink that remembers what went through it, for keys whose answers are kept."""

from collections.abc import Callable, Sequence

from .sink import Header, Sink

MOST = 2 << 20
"""Bytes that are remembered; of a stream they hold far less text."""


class Overheard:
    """A `Sink` in front of another; `data` is the answer so far."""

    def __init__(self, sink: Sink) -> None:
        self.data = bytearray()
        self.too_long = False
        """There was more than is remembered."""
        self._sink = sink

    async def whole(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        self._hear(body)
        await self._sink.whole(status, headers, body)

    async def start(self, status: int, headers: Sequence[Header]) -> None:
        await self._sink.start(status, headers)

    async def piece(self, data: bytes, more: bool) -> None:
        self._hear(data)
        await self._sink.piece(data, more)

    def push(self, data: bytes) -> bool:
        pushed = self._sink.push(data)
        if pushed:
            self._hear(data)
        return pushed

    def when_gone(self, callback: Callable[[], None]) -> None:
        self._sink.when_gone(callback)

    def cut(self) -> None:
        self._sink.cut()

    def forget(self) -> None:
        self._sink.forget()

    def _hear(self, data: bytes) -> None:
        room = MOST - len(self.data)
        self.too_long = self.too_long or len(data) > room
        self.data += data[:room]
