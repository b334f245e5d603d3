"""Cards and zones that a test sets, behind the real interfaces."""

from collections.abc import Callable

import attrs

from cerberus_core.errors import Unavailable
from cerberus_core.gpu import Monitor
from cerberus_core.interfaces import EnergyMeter, GPUVendor
from cerberus_core.testing import FakeClock
from cerberus_core.values import GPU, Availability, EnergyReading


def card(index: int = 0, **more: object) -> GPU:
    values = {"index": index, "id": f"gpu-{index}", "name": f"Card {index}", "vendor": "cards"}
    return GPU(**{**values, **more})  # type: ignore[arg-type]


class Cards(GPUVendor):
    name = "cards"

    def __init__(self, *gpus: GPU) -> None:
        self.gpus = list(gpus)
        self.state = Availability(ok=True)
        self.before: Callable[[], None] = lambda: None
        self.reads = 0

    def available(self) -> Availability:
        return self.state

    def read(self) -> list[GPU]:
        self.reads += 1
        self.before()
        return list(self.gpus)

    def change(self, index: int = 0, **more: object) -> None:
        self.gpus[index] = attrs.evolve(self.gpus[index], **more)  # type: ignore[arg-type]


class Zones(EnergyMeter):
    name = "zones"

    def __init__(self, **joules: float) -> None:
        self.joules = joules

    def available(self) -> Availability:
        return Availability(ok=True)

    def read(self) -> list[EnergyReading]:
        return [EnergyReading(zone=zone, energy_j=j) for zone, j in self.joules.items()]


def lost() -> None:
    raise Unavailable("the driver is gone", hint="load it")


@attrs.define
class Answer:
    """What a request has made so far."""

    pieces: int = 0


def monitor(clock: FakeClock, *sources: Cards | Zones, **more: float) -> Monitor:
    return Monitor(
        {one.name: one for one in sources if isinstance(one, Cards)},
        {one.name: one for one in sources if isinstance(one, Zones)},
        clock=clock,
        **more,  # type: ignore[arg-type]
    )
