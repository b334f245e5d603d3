"""Time as a thing that is handed in, so that no test waits for real seconds."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """`monotonic` for durations (seconds), `now` for the calendar (UTC), `sleep` to wait."""

    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The real one."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        # Not at the top: every command imports this room, and most run no loop.
        import asyncio

        await asyncio.sleep(seconds)
