"""From the readings of one source to its joules. Pure.

Differences of the counter come first. Where there is none, or it tells
nonsense, power is integrated over time, but not over a gap in which anything
may have happened. The total never falls, and is None until something is known.
"""

import math

import attrs

MAX_GAP_S = 10.0
"""Longest time over which power is integrated or carried on."""
MAX_W = 3000.0
"""No card and no CPU draws more: a counter that says so was reset or errs, a power errs."""
SLACK_S = 1.0
"""Counters are renewed in intervals of their own: a difference may belong to a longer time."""


@attrs.frozen(kw_only=True)
class Sample:
    """One reading. `at` is in seconds of a monotonic clock."""

    at: float
    counter_j: float | None = None
    power_w: float | None = None
    wraps_at_j: float | None = None


@attrs.frozen(kw_only=True)
class Step:
    """What the source used between two readings; `joules` None where that can't be known."""

    start: float
    end: float
    joules: float | None
    counted: bool
    """All of it is a difference of the counter."""


class Integrator:
    """`take` the samples of one source, in order."""

    def __init__(self) -> None:
        self.total_j: float | None = None
        self.last: Sample | None = None
        self._anchor: Sample | None = None
        """The last one with a counter."""
        self._since_anchor = 0.0
        """Joules since then that were integrated from power."""

    def take(self, sample: Sample) -> Step | None:
        """The step that ends here. None for the first one, and where nothing was read."""
        counter, power = _good(sample.counter_j), _good(sample.power_w, most=MAX_W)
        if counter is None and power is None:
            return None
        sample = attrs.evolve(sample, counter_j=counter, power_w=power)
        last = self.last
        if last is not None and sample.at == last.at:
            return None
        if last is None or sample.at < last.at:
            self._anchor_at(sample)
            return None
        joules = self._counted(sample)
        counted = joules is not None and self._anchor is last
        if joules is None:
            joules = self._integrated(last, sample)
            self._since_anchor += joules or 0.0
        if joules is not None:
            self.total_j = (self.total_j or 0.0) + joules
        self._anchor_at(sample)
        return Step(start=last.at, end=sample.at, joules=joules, counted=counted)

    def until(self, now: float) -> tuple[float | None, bool]:
        """(total at `now`, whether some of it is carried on from the last reading)."""
        last = self.last
        if last is None or last.power_w is None or not 0 < now - last.at <= MAX_GAP_S:
            return self.total_j, False
        return (self.total_j or 0.0) + last.power_w * (now - last.at), True

    def _anchor_at(self, sample: Sample) -> None:
        self.last = sample
        if sample.counter_j is not None:
            self._anchor = sample
            self._since_anchor = 0.0

    def _counted(self, sample: Sample) -> float | None:
        """By the counter, what power gave since its last reading taken off; None: it can't say."""
        anchor = self._anchor
        if anchor is None or anchor.counter_j is None or sample.counter_j is None:
            return None
        joules = sample.counter_j - anchor.counter_j
        wraps_at = _good(sample.wraps_at_j)
        if joules < 0 and wraps_at:
            joules += wraps_at
        if not 0 <= joules <= MAX_W * (sample.at - anchor.at + SLACK_S):
            return None
        return max(0.0, joules - self._since_anchor)

    def _integrated(self, last: Sample, sample: Sample) -> float | None:
        seconds = sample.at - last.at
        if last.power_w is None or sample.power_w is None or seconds > MAX_GAP_S:
            return None
        return (last.power_w + sample.power_w) / 2 * seconds


def _good(value: float | None, most: float = math.inf) -> float | None:
    known = value is not None and math.isfinite(value) and 0 <= value <= most
    return value if known else None
