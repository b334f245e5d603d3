"""A listening socket on loopback that leaves nothing open."""

import asyncio
from collections.abc import Awaitable, Callable

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_ROUNDS = 5
"""Rounds of the loop that it takes from an accepted socket to a connection, and from a
closed one to none."""


class Listener:
    """`async with Listener(serve) as listener:` runs `serve(reader, writer)` for each connection.

    When `serve` returns, the connection is closed; a client that leaves is no error. At the
    end all of them are broken off, those too whose task had not begun.
    """

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """`http://` and its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """Open now."""
        return len(self._open)

    async def __aenter__(self) -> "Listener":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Nobody listens any more, and every connection is gone. Harmless twice."""
        assert self._server is not None
        loop = asyncio.get_running_loop()
        for sock in self._server.sockets:
            # asyncio loses a socket that it accepts in the very step of the server's end.
            loop.remove_reader(sock.fileno())
        await _rounds()
        self._server.close()
        self.drop()
        await asyncio.gather(*self._open, return_exceptions=True)
        await _rounds()

    def drop(self) -> None:
        """Break off all connections that are open."""
        for task, writer in self._open.items():
            task.cancel()
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # No coroutine: one that is cancelled before its first step closes nothing.
        task = asyncio.get_running_loop().create_task(self._run(reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._ended)

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._open.pop(task).close()


async def _rounds() -> None:
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
