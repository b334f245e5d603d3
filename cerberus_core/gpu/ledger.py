"""Each request's share of the energy.

A request is a `Use` from the moment it has its model to its end. Whatever a
step of a source brought is split among those who were there. Once every source
was read after its end, what it has got is final, and whoever ended it is told.
"""

from collections.abc import Callable, Sequence, Set
from typing import Literal, Protocol

import attrs

from cerberus_core.platform import Clock
from cerberus_core.values import EnergyMark

from .baseline import Baseline
from .integrate import Sample, Step
from .shares import LEAST_S, Span, above_idle, busy_s, split

Kind = Literal["gpu", "cpu"]

WAIT_S = 1.0
"""How long the end of a request waits for a source that can't be read."""
KEEP_S = 60.0
"""How long a finished one is remembered for a source whose next reading covers its time."""
IDLE_PART = 0.02
"""A step with less use than this part of its time tells the idle draw."""


@attrs.frozen(kw_only=True)
class Share:
    """The energy of one request above the idle draw; all None where nothing measures it."""

    gpu_j: float | None = None
    cpu_j: float | None = None
    mark: EnergyMark | None = None

    @property
    def energy_j(self) -> float | None:
        """Both together, as far as known."""
        known = [joules for joules in (self.gpu_j, self.cpu_j) if joules is not None]
        return sum(known) if known else None

    def tok_per_j(self, tokens: int | None) -> float | None:
        energy_j = self.energy_j
        return round(tokens / energy_j, 4) if tokens and energy_j else None


class Counted(Protocol):
    """Who knows how many tokens a request has got so far."""

    pieces: int


@attrs.frozen(kw_only=True)
class Reading:
    """One source in one round; `step` None where nothing came of it."""

    source: str
    kind: Kind
    card: str | None = None
    """Of a GPU: its name, as models that sit on it know it."""
    sample: Sample | None
    step: Step | None


class Use:
    """One request that is being answered."""

    def __init__(
        self, ledger: "Ledger", begin: float, counted: Counted, cards: Set[str] | None = None
    ) -> None:
        self.begin = begin
        self.ended: float | None = None
        self.rate = 0.0
        self._ledger = ledger
        self._counted = counted
        self._cards = cards
        self._tokens = 0
        self._told: Callable[[Share], None] | None = None
        self._joules: dict[Kind, float] = {}
        self._until = begin
        self._shared = False
        self._estimated = False

    def so_far(self) -> Share:
        """For an answer that can't wait: what was metered, carried on to now."""
        now = self._ledger.now()
        metered = self._until - self.begin
        if metered < self._ledger.least_s:
            return Share()
        factor = max(1.0, (now - self.begin) / metered)
        return self._share({kind: j * factor for kind, j in self._joules.items()}, "estimated")

    def end(self, tokens: int | None, told: Callable[[Share], None]) -> None:
        """It is over, with so many tokens. `told` is called once, with the final share."""
        if self.ended is None:
            self.ended = self._ledger.now()
            self._tokens_at_end = tokens
            self._told = told
            self._ledger.ended(self)

    # For the ledger.

    _tokens_at_end: int | None = None

    @property
    def settled(self) -> bool:
        return self.ended is not None and self._told is None

    def count(self, since: float, now: float) -> None:
        """How fast it made tokens between two rounds."""
        seconds = (now if self.ended is None else self.ended) - max(since, self.begin)
        if seconds < LEAST_S:
            return
        tokens = max(self._counted.pieces, self._tokens_at_end or 0)
        self.rate = max(0, tokens - self._tokens) / seconds
        self._tokens = tokens

    def draws(self, card: str | None) -> bool:
        """Whether it may have used what the source brought; a meter of no card is everybody's."""
        return card is None or self._cards is None or card in self._cards

    def span(self, step: Step) -> Span | None:
        begin = max(step.start, self.begin)
        end = step.end if self.ended is None else min(step.end, self.ended)
        return Span(begin, end, self.rate) if end > begin else None

    def add(self, kind: Kind, joules: float | None, *, shared: bool, sure: bool) -> None:
        if joules is not None:
            self._joules[kind] = self._joules.get(kind, 0.0) + joules
        self._shared = self._shared or shared
        self._estimated = self._estimated or not sure

    def reached(self, now: float) -> None:
        self._until = now if self.ended is None else min(now, self.ended)

    def settle(self, *, sure: bool) -> None:
        told, self._told = self._told, None
        if told is not None:
            mark: EnergyMark = "apportioned" if self._shared else "measured"
            told(self._share(self._joules, mark if sure and not self._estimated else "estimated"))

    def _share(self, joules: dict[Kind, float], mark: EnergyMark) -> Share:
        if not joules:
            return Share()
        gpu, cpu = joules.get("gpu"), joules.get("cpu")
        return Share(
            gpu_j=None if gpu is None else round(gpu, 6),
            cpu_j=None if cpu is None else round(cpu, 6),
            mark=mark,
        )


class Ledger:
    """All requests in the making, and those whose last reading is still to come."""

    def __init__(self, clock: Clock, *, interval_s: float, wake: Callable[[], None]) -> None:
        """`interval_s` lies between two readings; `wake` asks for them to begin."""
        self.metering = False
        """Whether anything is metered at all."""
        self.now = clock.monotonic
        self.retune(interval_s)
        self._wake = wake
        self._uses: list[Use] = []
        self._closed = False
        self._baselines: dict[str, Baseline] = {}
        self._read_at: dict[str, float] = {}
        self._last_round = 0.0

    def retune(self, interval_s: float) -> None:
        """So long lies between two readings from now on."""
        self.least_s = interval_s / 2
        self._long_s = max(1.0, 2 * interval_s)

    @property
    def busy(self) -> bool:
        """Readings are needed: somebody is answered, or waits for a final share."""
        return any(not use.settled for use in self._uses)

    @property
    def settling(self) -> bool:
        """Somebody's record waits for the next reading."""
        return any(use.ended is not None and not use.settled for use in self._uses)

    def begin(self, counted: Counted, cards: Set[str] | None = None) -> Use | None:
        """A request begins to use a model that runs here; None where nothing is metered.

        `cards`: those that the model sits on; None: nobody knows, it may be any.
        """
        if not self.metering:
            return None
        use = Use(self, self.now(), counted, cards)
        self._uses.append(use)
        self._wake()
        return use

    def ended(self, use: Use) -> None:
        """A use has ended; where no reading comes any more, this is all."""
        if self._closed:
            use.settle(sure=False)
        self._wake()

    def idle_w(self, source: str) -> float | None:
        """What the source draws while nobody is answered; None until it was learned."""
        baseline = self._baselines.get(source)
        return None if baseline is None else baseline.watts

    def take(self, now: float, readings: Sequence[Reading]) -> None:
        """One round of readings of every source that there is."""
        for use in self._uses:
            use.count(self._last_round, now)
        self._last_round = now
        for reading in readings:
            if reading.sample is not None:
                self._read_at[reading.source] = reading.sample.at
            if reading.step is not None and reading.sample is not None:
                self._share_out(reading, reading.step, reading.sample)
        for use in self._uses:
            use.reached(now)
            self._settle(use, now, [reading.source for reading in readings])
        behind = min((self._read_at.get(r.source, 0.0) for r in readings), default=now)
        self._uses = [
            use
            for use in self._uses
            if not use.settled or use.ended is None or use.ended > max(behind, now - KEEP_S)
        ]

    def close(self) -> None:
        """No more readings: every request that waits is told what is known."""
        self._closed = True
        self.metering = False
        for use in self._uses:
            use.settle(sure=False)
        self._uses.clear()

    def _share_out(self, reading: Reading, step: Step, sample: Sample) -> None:
        spans = [
            (use, span)
            for use in self._uses
            if use.draws(reading.card) and (span := use.span(step)) is not None
        ]
        baseline = self._baselines.setdefault(reading.source, Baseline())
        idle_w = baseline.watts
        seconds = step.end - step.start
        busy = busy_s([span for _, span in spans])
        if busy <= IDLE_PART * seconds:
            watts = sample.power_w if step.joules is None else step.joules / seconds
            if watts is not None:
                baseline.observe(watts, seconds)
        if not spans:
            return
        if step.joules is None:
            for use, _ in spans:
                use.add(reading.kind, None, shared=False, sure=False)
            return
        joules = above_idle(step.joules, seconds, busy, idle_w or 0.0, self._long_s)
        sure = step.counted and idle_w is not None
        parts = split(joules, [span for _, span in spans])
        for (use, _), part in zip(spans, parts, strict=True):
            use.add(reading.kind, part.joules, shared=part.shared, sure=sure)

    def _settle(self, use: Use, now: float, sources: Sequence[str]) -> None:
        if use.ended is None or use.settled:
            return
        ended = use.ended
        if all(self._read_at.get(source, -1.0) >= ended for source in sources):
            use.settle(sure=True)
        elif now - ended >= WAIT_S:
            use.settle(sure=False)
