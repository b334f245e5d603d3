"""Blocking calls of one vendor's library: one at a time, each under a time limit."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from cerberus_core.errors import Unavailable
from cerberus_core.platform import in_daemon_thread

T = TypeVar("T")


class Reader:
    """A call that hangs is left behind in its thread, and no other is begun until it returns."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: asyncio.Task[Any] | None = None
        self._hung = False

    async def call(self, work: Callable[[], T], limit_s: float) -> T:
        """The result of `work`, or what it raises. `Unavailable` where it hangs."""
        # One that nobody waits for any more, because who asked was cancelled, may just be slow.
        await self.rest(0.0 if self._hung else limit_s)
        if self._running is not None:
            raise self._hangs()
        task = asyncio.ensure_future(in_daemon_thread(work))
        task.add_done_callback(_look)
        self._running = task
        await self.rest(limit_s)
        if self._running is not None:
            raise self._hangs()
        return task.result()

    async def rest(self, limit_s: float) -> None:
        """Wait for a call that runs, for so long."""
        running = self._running
        if running is None:
            return
        await asyncio.wait({running}, timeout=limit_s)
        if running.done() and self._running is running:
            self._running, self._hung = None, False

    def leave(self) -> None:
        """Wait for nothing any more."""
        if self._running is not None:
            self._running.cancel()

    def _hangs(self) -> Unavailable:
        self._hung = True
        return Unavailable(f"{self._name} doesn't answer", hint="Its driver may hang.")


def _look(task: asyncio.Task[Any]) -> None:
    """Nobody may be left who hears of the exception."""
    if not task.cancelled():
        task.exception()
