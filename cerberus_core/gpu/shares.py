"""Who used the energy of one step. Pure.

The step is cut where requests begin and end. In each segment half of the
energy is split evenly among those who were answered then, half by their token
rates; where nobody made tokens, all of it evenly.
"""

from collections.abc import Sequence

import attrs

LEAST_S = 0.001
"""The rate of a shorter span means nothing."""
NO_TIME_S = 1e-6
"""Over less there is no power to speak of."""
LEAST_RATE = 0.001
"""A lower rate is none: it would be lost among the rounding errors of the others."""
MOST_RATE = 1e6
"""No engine is faster, whatever it says: a higher rate would drown those of the others."""


@attrs.frozen
class Span:
    """One request's time within the step, and its tokens a second in it."""

    begin: float
    end: float
    rate: float = 0.0


@attrs.frozen
class Part:
    joules: float
    shared: bool
    """Somebody else was answered at the same time."""


def busy_s(spans: Sequence[Span]) -> float:
    """Seconds in which anybody was answered."""
    total, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda span: span.begin):
        total += max(0.0, span.end - max(span.begin, reached))
        reached = max(reached, span.end)
    return total


def above_idle(joules: float, seconds: float, busy: float, idle_w: float, long_s: float) -> float:
    """What the requests of a step used above the idle draw.

    The idle part of a short step drew what it always draws. A long one (the
    time since somebody last asked) is no such witness: there the busy part
    gets its part of the time.
    """
    if seconds > long_s:
        joules, seconds = joules * busy / seconds, busy
    return max(0.0, joules - idle_w * seconds)


def split(joules: float, spans: Sequence[Span]) -> list[Part]:
    """`joules`, spread evenly over the time in which anybody was answered; they add up to it."""
    busy = busy_s(spans)
    if busy <= 0:
        return [Part(0.0, False) for _ in spans]
    if busy < NO_TIME_S:
        return [Part(joules / len(spans), len(spans) > 1) for _ in spans]
    watts = joules / busy
    moments = sorted(
        [(span.end, 0, i) for i, span in enumerate(spans) if span.end > span.begin]
        + [(span.begin, 1, i) for i, span in enumerate(spans) if span.end > span.begin]
    )
    rates = [_rate(span) for span in spans]
    # Joules that one of them has got evenly, and for each token a second, since the start; and
    # the seconds in which there were several. A span's own is the growth from its begin to its end.
    evenly = by_rate = together = 0.0
    at_begin = [(0.0, 0.0, 0.0)] * len(spans)
    parts = [Part(0.0, False)] * len(spans)
    count = rated = 0
    rate = 0.0
    before = moments[0][0]
    for moment, begins, i in moments:
        seconds = moment - before
        if seconds > 0 and count:
            if rated:
                by_rate += watts * seconds / 2 / rate
                evenly += watts * seconds / 2 / count
            else:
                evenly += watts * seconds / count
            if count > 1:
                together += seconds
        before = moment
        if begins:
            at_begin[i] = (evenly, by_rate, together)
            count, rated, rate = count + 1, rated + (rates[i] > 0), rate + rates[i]
        else:
            then_evenly, then_rate, then_together = at_begin[i]
            own = evenly - then_evenly + rates[i] * (by_rate - then_rate)
            parts[i] = Part(own, together > then_together)
            count, rated, rate = count - 1, rated - (rates[i] > 0), rate - rates[i]
            if not rated:
                rate = 0.0
    return parts


def _rate(span: Span) -> float:
    means = span.end - span.begin >= LEAST_S and span.rate >= LEAST_RATE
    return min(span.rate, MOST_RATE) if means else 0.0
