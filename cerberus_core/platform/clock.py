"""Time as a thing that is handed in, so that no test waits for real seconds."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


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


async def woken(event: "asyncio.Event", clock: Clock, within_s: float | None) -> None:
    """Until `event` is set, or `within_s` seconds of `clock` have passed; None: for ever."""
    if within_s is None or event.is_set():
        await event.wait()
        return
    import asyncio

    alarm = asyncio.ensure_future(clock.sleep(within_s))
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((alarm, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()
        waiting.cancel()
