"""Who is to be stopped, and by what."""

import signal
from collections.abc import Callable

import anyio

from cerberus_core.api.server import Server


class Stopping:
    """Who is to be stopped: the start, which is cancelled, and then the server, which is asked."""

    def __init__(self, on_stopping: Callable[[int], None]) -> None:
        self.start = anyio.CancelScope()
        self._on_stopping = on_stopping
        self._server: Server | None = None
        self._running: Callable[[], int] = int

    def serving(self, server: Server, running: Callable[[], int]) -> None:
        self._server, self._running = server, running

    def signalled(self) -> None:
        """The first signal asks for a stop; a second one cuts running answers off."""
        again = self._server is not None and self._server.should_exit
        if not again:
            self._on_stopping(self._running())
        self.ask()
        if self._server is not None:
            self._server.force_exit = again

    def ask(self) -> None:
        if self._server is None:
            self.start.cancel()
        else:
            self._server.should_exit = True


async def stop_on_signal(stopping: Stopping) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            stopping.signalled()


async def stop_when(stop: anyio.Event, stopping: Stopping) -> None:
    await stop.wait()
    stopping.ask()
