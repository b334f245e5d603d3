"""One scan at a time, shared by all who ask, waited for under a limit."""

import asyncio

from cerberus_core.errors import Unavailable
from cerberus_core.platform import in_daemon_thread

from .found import Found
from .scan import Library

LIMIT_S = 8.0
"""Seconds that a scan is waited for; it goes on, and the next one who asks joins it."""


class SharedScan:
    """`await scan()`. A disk that hangs costs one thread, however often it is asked."""

    def __init__(self, library: Library, limit_s: float = LIMIT_S) -> None:
        self._library = library
        self._limit_s = limit_s
        self._running: asyncio.Task[dict[str, Found]] | None = None
        self.last: dict[str, Found] = {}
        """What the last scan found."""

    async def __call__(self, *, fresh: bool = False) -> dict[str, Found]:
        """Name → model. `fresh`: of a scan that began after this call.

        Raises `Unavailable` where it takes too long, naming the file.
        """
        try:
            async with asyncio.timeout(self._limit_s):
                if fresh and self._running is not None:
                    await asyncio.wait([self._running])
                self.last = await asyncio.shield(self._join())
                return self.last
        except TimeoutError:
            raise Unavailable(
                f"the models can't be listed: {self._library.looking_at} takes more than "
                f"{self._limit_s:g} s to read",
                hint="Is its disk there? Else move it out of the folder.",
            ) from None

    def close(self) -> None:
        """Wait for a scan that runs no longer."""
        if self._running is not None:
            self._running.cancel()

    def _join(self) -> "asyncio.Task[dict[str, Found]]":
        if self._running is None or self._running.done():
            loop = asyncio.get_running_loop()
            self._running = loop.create_task(in_daemon_thread(self._library.scan), name="scan")
        return self._running
