"""A network that can fail: passes bytes to a port of this machine until it is cut."""

import asyncio
import contextlib
from collections.abc import Iterator

from anyio.from_thread import BlockingPortal


class Wire:
    """`url` leads to the daemon. Between `cut()` and `mend()` nothing gets through."""

    def __init__(self, target: int, portal: BlockingPortal) -> None:
        self._target = target
        self._portal = portal
        self._whole = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._drop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Every connection breaks off; new ones too, at once."""
        self._whole = False
        self._portal.call(self._drop)

    def mend(self) -> None:
        self._whole = True

    @contextlib.contextmanager
    def cut_off(self) -> Iterator[None]:
        """Cut for the time of a block."""
        self.cut()
        yield
        self.mend()

    def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self._whole:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
