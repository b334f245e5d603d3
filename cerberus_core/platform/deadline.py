"""A time limit that is moved far more often than it is reached."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls `reached()` once `set(seconds)` has passed without another `set` or `clear`.

    Moving it costs an assignment: the one timer behind it looks, when it rings,
    whether the limit has moved meanwhile, and is then wound up again.
    """

    __slots__ = ("_at", "_loop", "_reached", "_rings_at", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, reached: Callable[[], None]) -> None:
        self._loop = loop
        self._reached = reached
        self._at: float | None = None
        self._rings_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """From now on."""
        at = self._at = self._loop.time() + seconds
        if self._timer is None or at < self._rings_at:
            self._wind(at)

    def clear(self) -> None:
        """No limit for now."""
        self._at = None

    def close(self) -> None:
        """For good: lets go of the timer, and of who is to be called."""
        self._at = None
        self._reached = _nobody
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wind(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = at
        self._timer = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        at = self._at
        if at is None:
            return
        # A clock of whole milliseconds may ring a little early.
        if at - self._loop.time() > 0.001:
            self._wind(at)
            return
        self._at = None
        self._reached()


def _nobody() -> None:
    pass
