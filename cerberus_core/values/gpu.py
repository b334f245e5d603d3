"""GPUs, energy meters, and what they read. MiB, watts, joules, degrees Celsius."""

from datetime import datetime
from typing import Literal

import attrs

from .models import Availability

EnergyMark = Literal["measured", "apportioned", "estimated"]
"""How an energy was got.

measured: from a counter, and nobody else was answered meanwhile. apportioned:
from a counter, shared with requests that ran at the same time. estimated: some
of it is power integrated over time, carried on from earlier, or lacks a meter.
"""


@attrs.frozen(kw_only=True)
class GPU:
    """One card at one moment; None for what it doesn't tell."""

    index: int
    """Its place in its vendor's list."""
    id: str
    """The same after a restart: the card's UUID or PCI address."""
    name: str
    vendor: str
    mem_total_mib: int | None = None
    mem_used_mib: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    util_pct: int | None = None
    temp_c: int | None = None
    pstate: str | None = None
    energy_j: float | None = None
    """The card's own counter, since its driver was loaded."""
    processes: dict[int, int | None] | None = None
    """Pid → MiB of the card's memory. None: not told at all."""
    problem: str | None = None
    """Why it could not be read now."""
    host: str = "local"

    @property
    def card(self) -> str:
        """`nvidia0`, `amd1`: two vendors may sit in one machine."""
        return f"{self.vendor}{self.index}"

    def unread(self, problem: str) -> "GPU":
        """The card without what can't be known now."""
        return GPU(
            index=self.index,
            id=self.id,
            name=self.name,
            vendor=self.vendor,
            mem_total_mib=self.mem_total_mib,
            power_limit_w=self.power_limit_w,
            problem=problem,
            host=self.host,
        )


@attrs.frozen(kw_only=True)
class EnergyReading:
    """One zone of an energy meter: a CPU package, its memory."""

    zone: str
    energy_j: float | None = None
    """A counter that starts anywhere and only rises, but for its wrap."""
    wraps_at_j: float | None = None
    """Where the counter starts again at 0."""
    power_w: float | None = None
    problem: str | None = None


@attrs.frozen(kw_only=True)
class MeterReport:
    """What reads GPUs or energy here, and whether it works."""

    name: str
    measures: Literal["gpu", "cpu"]
    state: Availability


@attrs.frozen(kw_only=True)
class GPUSnapshot:
    """All cards, and the energy since the daemon started."""

    time: datetime
    """When they were read last."""
    gpus: tuple[GPU, ...] = ()
    gpu_energy_j: float | None = None
    """Of all cards together; never falls."""
    cpu_energy_j: float | None = None
    """Of all CPU packages (and memory that is metered apart); never falls."""
    extrapolated: bool = False
    """The energy since the last reading is carried on from the power read then."""
    meters: tuple[MeterReport, ...] = ()
