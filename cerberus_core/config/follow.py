"""When a changed file is read: once it was left alone."""

import asyncio
import contextlib
from pathlib import Path

from anyio.to_thread import run_sync as in_thread

from cerberus_core.platform import Clock

from .current import Current
from .watch import Content, Watch, content

QUIET_S = 0.25
"""How long a file is left alone before it is read."""
MOST_S = 2.0
"""It is read no later than this, however often it is saved."""
GONE_S = 2.0
"""An editor may take a file away, or empty it, for as long as this."""


class Follow:
    """Reloads `current` whenever `file` was saved."""

    def __init__(self, current: Current, file: Path, seen: Content, clock: Clock) -> None:
        """`seen`: what the file held when it was read."""
        self._current = current
        self._file = file
        self._seen = seen
        self._clock = clock
        self._word = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self.changed)

        watch = Watch(self._file, self._seen, tell)
        watch.start()
        try:
            while True:
                await self._word.wait()
                await self._until_quiet()
                await self._take()
        finally:
            watch.stop()

    def changed(self) -> None:
        """The file holds something else."""
        self._word.set()

    async def _until_quiet(self) -> None:
        latest = self._clock.monotonic() + MOST_S
        while self._word.is_set() and self._clock.monotonic() < latest:
            self._word.clear()
            await self._clock.sleep(QUIET_S)

    async def _take(self) -> None:
        latest = self._clock.monotonic() + GONE_S
        while _nothing(found := await in_thread(content, self._file)):
            if self._clock.monotonic() >= latest:
                break
            await self._clock.sleep(QUIET_S)
        if found is None:
            self._current.lost()
            return
        await self._current.try_reload()


def _nothing(found: Content) -> bool:
    return found is None or (isinstance(found, bytes) and not found.strip())
