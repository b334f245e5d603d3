"""A clock that stands still until a test moves it."""

import asyncio
import heapq
import math
from datetime import UTC, datetime, timedelta
from itertools import count

_START = datetime(2026, 1, 1, tzinfo=UTC)
# Rounds of the loop that woken tasks get to run and to sleep again. A task that
# awaits real input or output between two sleeps isn't waited for.
_ROUNDS = 20


class FakeClock:
    """Implements `cerberus_core.platform.Clock`.

    >>> clock = FakeClock()
    >>> await clock.advance(600)     # wakes every sleeper whose time has come, in order
    """

    def __init__(self, start: datetime = _START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    @property
    def sleepers(self) -> int:
        """How many tasks sleep now."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def monotonic(self) -> float:
        return self._elapsed

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def jump(self, seconds: float) -> None:
        """Set the time of day alone, forward or back: by hand, or in the sleep of the machine."""
        self._start += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        # The least that can be told apart: who sleeps for the rest of a limit must get there.
        due = max(self._elapsed + seconds, math.nextafter(self._elapsed, math.inf))
        heapq.heappush(self._sleepers, (due, next(self._order), future))
        # On cancellation the future is cancelled, and `advance` passes over it.
        await future

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass; returns when those who woke have come to rest."""
        end = self._elapsed + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self._elapsed = max(self._elapsed, due)
            future.set_result(None)
            await _settle()
        self._elapsed = end

    async def until_sleeping(self, tasks: int = 1) -> None:
        """Wait until so many tasks sleep, so that `advance` finds them."""
        while self.sleepers < tasks:  # noqa: ASYNC110 any task may be the next to sleep
            await asyncio.sleep(0)


async def _settle() -> None:
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
