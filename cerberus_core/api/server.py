"""uvicorn as the daemon runs it."""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator

import anyio
import uvicorn

from .guard import App
from .protocol import Protocol


class Server(uvicorn.Server):
    """Calls `before_shutdown` before it waits for open streams, `after_startup` once it listens.

    Running answers get `grace_s` seconds when it is asked to stop.
    """

    def __init__(
        self,
        app: App,
        *,
        grace_s: int,
        before_shutdown: Callable[[], None],
        after_startup: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="warning",
                timeout_graceful_shutdown=grace_s,
                server_header=False,
                # X-Forwarded-For of whoever sits on loopback is no truth for us.
                proxy_headers=False,
                ws="none",
            )
        )
        self._before_shutdown = before_shutdown
        self._after_startup = after_startup
        self._closed = False
        self.listening = anyio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again at its end, which would kill the
        # process before the engines are stopped and the last records written.
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        await self._after_startup()
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._before_shutdown()
        self._closed = True
        await super().shutdown(sockets=sockets)

    async def close(self, sock: socket.socket) -> None:
        """Shut down where `serve` was cancelled before it could."""
        if self.started and not self._closed:
            self.force_exit = True
            with anyio.CancelScope(shield=True):
                await self.shutdown(sockets=[sock])
