"""A network that can fail: passes bytes to a port of this machine until it is cut."""

import asyncio
import contextlib
from collections.abc import Iterator

from anyio.from_thread import BlockingPortal

from cerberus_core.testing import Listener


class Wire:
    """`url` leads to the daemon. Between `cut()` and `mend()` nothing gets through."""

    def __init__(self, target: int, portal: BlockingPortal) -> None:
        self._target = target
        self._portal = portal
        self._whole = True
        self._listener = Listener(self._serve)

    async def __aenter__(self) -> "Wire":
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.stop()

    @property
    def url(self) -> str:
        return self._listener.url

    def cut(self) -> None:
        """Every connection breaks off; new ones too, at once."""
        self._whole = False
        self._portal.call(self._listener.drop)

    def mend(self) -> None:
        self._whole = True

    @contextlib.contextmanager
    def cut_off(self) -> Iterator[None]:
        """Cut for the time of a block."""
        self.cut()
        yield
        self.mend()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            for each in (writer, far_writer):
                each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
