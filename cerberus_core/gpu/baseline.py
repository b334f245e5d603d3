"""What a source draws while nobody uses it. Pure."""

from collections import deque

KEPT = 16
"""Observations; the oldest is forgotten."""
LEAST_S = 1.0
"""A shorter time tells too little."""


class Baseline:
    """Learns idle watts. A lower quartile, so that a model's load now and then doesn't raise it."""

    def __init__(self) -> None:
        self._watts: deque[float] = deque(maxlen=KEPT)

    def observe(self, watts: float, seconds: float) -> None:
        """So much was drawn on average in an idle time of so many seconds."""
        if seconds >= LEAST_S and watts >= 0:
            self._watts.append(watts)

    @property
    def watts(self) -> float | None:
        """None until something was observed."""
        if not self._watts:
            return None
        return sorted(self._watts)[(len(self._watts) - 1) // 4]
