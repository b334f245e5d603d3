"""What the cards do and what was drawn: read while somebody is answered, else when asked."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import structlog

from cerberus_core.errors import CerberusError
from cerberus_core.interfaces import EnergyMeter, GPUVendor
from cerberus_core.platform import Clock, woken
from cerberus_core.values import GPU, Availability, EnergyReading, GPUSnapshot, MeterReport

from .integrate import Integrator, Sample
from .ledger import WAIT_S, Kind, Ledger, Reading
from .reader import Reader

READ_LIMIT_S = 2.0
"""How long one reading may take."""
LOOK_LIMIT_S = 10.0
"""How long a driver may take to be found; the first contact can be slow."""
LOOK_AGAIN_S = 30.0
"""What wasn't there is looked for again no sooner."""
FIRST_READINGS = 3
"""Readings at the start, a second apart, from which the idle draw is learned."""

_log = structlog.get_logger("gpu")


class _Source:
    """A vendor or a meter, and what it said last."""

    def __init__(self, name: str, kind: Kind, reads: GPUVendor | EnergyMeter) -> None:
        self.name = name
        self.kind = kind
        self.reads = reads
        self.reader = Reader(name)
        self.state: Availability | None = None
        self.problem: str | None = None
        """Why nothing could be read the last time."""
        self.warnings: tuple[str, ...] = ()
        """Of single cards or zones."""
        self.gpus: tuple[GPU, ...] = ()
        self.integrators: dict[str, Integrator] = {}

    @property
    def ok(self) -> bool:
        return self.state is not None and self.state.ok

    def report(self) -> MeterReport:
        state = self.state or Availability(ok=False, detail="not looked for yet")
        if self.problem is not None:
            state = attrs.evolve(state, ok=False, detail=self.problem)
        elif self.warnings:
            state = attrs.evolve(state, warnings=(*state.warnings, *self.warnings))
        return MeterReport(name=self.name, measures=self.kind, state=state)


class Monitor:
    """One reading at a time of every source; `ledger` shares the energy out."""

    def __init__(
        self,
        vendors: Mapping[str, GPUVendor],
        meters: Mapping[str, EnergyMeter],
        *,
        clock: Clock,
        active_interval_s: float = 0.5,
        idle_interval_s: float = 5.0,
        read_limit_s: float = READ_LIMIT_S,
        changed: Callable[[GPUSnapshot], None] = lambda _: None,
    ) -> None:
        """`changed` is called after each reading."""
        self._sources = [
            *[_Source(name, "gpu", vendor) for name, vendor in vendors.items()],
            *[_Source(name, "cpu", meter) for name, meter in meters.items()],
        ]
        self._clock = clock
        self._active_interval_s = active_interval_s
        self._idle_interval_s = idle_interval_s
        self._read_limit_s = read_limit_s
        self._changed = changed
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self._rounds = 0
        self._read_at: float | None = None
        self._looked_at: float | None = None
        self._time = clock.now()
        self._shown: dict[Kind, float | None] = {}
        self.ledger = Ledger(clock, interval_s=active_interval_s, wake=self._wake.set)

    def retune(self, *, active_interval_s: float, idle_interval_s: float) -> None:
        """From the next reading on."""
        self._active_interval_s = active_interval_s
        self._idle_interval_s = idle_interval_s
        self.ledger.retune(active_interval_s)

    async def run(self) -> None:
        """Read for as long as somebody is answered. Runs until cancelled."""
        await self.look()
        for _ in range(FIRST_READINGS):
            if not any(source.ok for source in self._sources):
                break
            await self.refresh()
            await self._clock.sleep(1.0)
        while True:
            if self.ledger.busy:
                await self.refresh()
                await self._until_next()
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _until_next(self) -> None:
        """Until a reading is due: by the interval, or because a record waits for it."""
        began = self._clock.monotonic()
        while (left := began + self._active_interval_s - self._clock.monotonic()) > 0:
            if self.ledger.settling:
                await self._clock.sleep(min(left, WAIT_S))
                return
            self._wake.clear()
            await woken(self._wake, self._clock, left)

    async def aclose(self) -> None:
        """No more readings; who waits for a share gets what is known."""
        self.ledger.close()
        for source in self._sources:
            await source.reader.rest(self._read_limit_s)
            try:
                await source.reader.call(source.reads.close, self._read_limit_s)
            except Exception as error:  # noqa: BLE001 the library of others
                _log.warning("meter_not_closed", name=source.name, error=str(error))
            source.reader.leave()

    async def look(self) -> None:
        """Ask every source that doesn't work yet whether it can."""
        self._looked_at = self._clock.monotonic()
        missing = [source for source in self._sources if not source.ok]
        await asyncio.gather(*[self._look_for(source) for source in missing])
        self.ledger.metering = any(source.ok for source in self._sources)

    async def refresh(self) -> GPUSnapshot:
        """Read now; a reading that runs already may have begun too early, so it doesn't count."""
        wanted = self._rounds + 1
        async with self._lock:
            if self._rounds < wanted:
                await self._read()
        return self.snapshot()

    async def fresh(self) -> GPUSnapshot:
        """As last read, or read now where that was longer ago than the idle interval."""
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_AGAIN_S:
            await self.look()
        old = self._read_at is None or now - self._read_at >= self._idle_interval_s
        if old and self.ledger.metering:
            return await self.refresh()
        return self.snapshot()

    def snapshot(self) -> GPUSnapshot:
        """As last read, the energy carried on to now. Reads nothing."""
        gpu_j, gpu_on = self._energy("gpu")
        cpu_j, cpu_on = self._energy("cpu")
        return GPUSnapshot(
            time=self._time,
            gpus=tuple(gpu for source in self._sources for gpu in source.gpus),
            gpu_energy_j=gpu_j,
            cpu_energy_j=cpu_j,
            extrapolated=gpu_on or cpu_on,
            meters=tuple(source.report() for source in self._sources),
        )

    def _energy(self, kind: Kind) -> tuple[float | None, bool]:
        now = self._clock.monotonic()
        ends = [
            integrator.until(now)
            for source in self._sources
            if source.kind == kind
            for integrator in source.integrators.values()
        ]
        known = [joules for joules, _ in ends if joules is not None]
        if known:
            # What was carried on too far is not taken back.
            self._shown[kind] = max(sum(known), self._shown.get(kind) or 0.0)
        return self._shown.get(kind), any(carried for _, carried in ends)

    async def _look_for(self, source: _Source) -> None:
        try:
            source.state = await source.reader.call(source.reads.available, LOOK_LIMIT_S)
        except Exception as error:  # noqa: BLE001 it shows where meters are listed
            source.state = Availability(ok=False, detail=_words(error), hint=_hint(error))

    async def _read(self) -> None:
        self._rounds += 1
        sources = [source for source in self._sources if source.ok]
        rounds = await asyncio.gather(*[self._read_one(source) for source in sources])
        self._read_at = self._clock.monotonic()
        self._time = self._clock.now()
        self.ledger.take(self._read_at, [reading for readings in rounds for reading in readings])
        self._changed(self.snapshot())

    async def _read_one(self, source: _Source) -> list[Reading]:
        def read() -> tuple[float, Sequence[Any]]:
            values = source.reads.read()
            return self._clock.monotonic(), list(values)

        try:
            at, values = await source.reader.call(read, self._read_limit_s)
            samples = self._samples(source, at, values)
            readings = [self._step(source, key, sample) for key, sample in samples.items()]
            source.problem = None
        except Exception as error:  # noqa: BLE001 it shows where meters are listed
            self._failed(source, error)
            samples, readings = {}, []
        missing = [key for key in source.integrators if key not in samples]
        return [*readings, *[self._step(source, key, None) for key in missing]]

    def _failed(self, source: _Source, error: Exception) -> None:
        problem = _words(error)
        if source.problem is None:
            _log.warning("meter_unreadable", name=source.name, error=problem)
        source.problem = problem
        source.gpus = tuple(gpu.unread(problem) for gpu in source.gpus)

    def _samples(self, source: _Source, at: float, values: Sequence[Any]) -> dict[str, Sample]:
        if source.kind == "gpu":
            gpus: Sequence[GPU] = values
            source.gpus = tuple(gpus)
            source.warnings = tuple(f"{g.name}: {g.problem}" for g in gpus if g.problem is not None)
            return {
                gpu.id: Sample(at=at, counter_j=gpu.energy_j, power_w=gpu.power_w)
                for gpu in gpus
                if gpu.problem is None
            }
        zones: Sequence[EnergyReading] = values
        source.warnings = tuple(f"{z.zone}: {z.problem}" for z in zones if z.problem is not None)
        return {
            zone.zone: Sample(
                at=at,
                counter_j=zone.energy_j,
                power_w=zone.power_w,
                wraps_at_j=zone.wraps_at_j,
            )
            for zone in zones
            if zone.problem is None
        }

    def _step(self, source: _Source, key: str, sample: Sample | None) -> Reading:
        integrator = source.integrators.setdefault(key, Integrator())
        step = None if sample is None else integrator.take(sample)
        name = f"{source.name}/{key}"
        card = next((gpu.card for gpu in source.gpus if gpu.id == key), None)
        return Reading(source=name, kind=source.kind, card=card, sample=sample, step=step)


def _words(error: Exception) -> str:
    if isinstance(error, CerberusError):
        return error.message
    return f"{type(error).__name__}: {error}"


def _hint(error: Exception) -> str | None:
    return error.hint if isinstance(error, CerberusError) else None
