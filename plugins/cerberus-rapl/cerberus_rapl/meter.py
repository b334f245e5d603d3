"""Packages and their memory, each a zone with a counter of its own.

A zone's folder is `intel-rapl:N` (AMD's too) or, below it, `intel-rapl:N:M`.
Packages don't hold their memory (`dram`), so both count. Cores and graphics
(`core`, `uncore`) are part of their package, and `psys` holds the packages:
they would be counted twice. `intel-rapl-mmio` shows a package once more.
https://docs.kernel.org/power/powercap/powercap.html
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cerberus_core.errors import Unavailable
from cerberus_core.interfaces import EnergyMeter
from cerberus_core.values import Availability, EnergyReading

_ZONE = re.compile(r"intel-rapl:\d+(:\d+)?")
_COUNTED = re.compile(r"package-\d+(-die-\d+)?|dram")

RULE = (
    "Most systems let only root read it. This udev rule, as "
    "/etc/udev/rules.d/60-powercap.rules, opens it to the group `power`: "
    'SUBSYSTEM=="powercap", ACTION=="add", '
    "RUN+=\"/bin/sh -c 'chgrp power /sys%p/energy_uj; chmod g+r /sys%p/energy_uj'\""
)
NO_POWERCAP = "Linux shows it on bare metal with an Intel CPU, or AMD's since Zen; VMs have none."


class RaplMeter(EnergyMeter):
    name = "rapl"

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def available(self) -> Availability:
        zones = list(self._zones())
        if not zones:
            return Availability(
                ok=False, detail=f"no CPU package in {self._root}", hint=NO_POWERCAP
            )
        readings = [_reading(name, folder) for name, folder in zones]
        problems = [f"{zone.zone}: {zone.problem}" for zone in readings if zone.problem]
        if len(problems) == len(readings):
            return Availability(ok=False, detail=problems[0], hint=RULE)
        return Availability(ok=True, detail=", ".join(zone.zone for zone in readings))

    def read(self) -> Sequence[EnergyReading]:
        zones = [_reading(name, folder) for name, folder in self._zones()]
        if not zones:
            raise Unavailable(f"no CPU package in {self._root} any more", hint=NO_POWERCAP)
        return zones

    def _zones(self) -> Iterator[tuple[str, Path]]:
        """(name, folder): `package-0`, `package-0/dram`."""
        try:
            folders = sorted(path for path in self._root.iterdir() if _ZONE.fullmatch(path.name))
        except OSError:
            return
        names = {folder.name: _text(folder / "name") for folder in folders}
        for folder in folders:
            name = names[folder.name]
            if name is None or not _COUNTED.fullmatch(name):
                continue
            parent, _, below = folder.name.removeprefix("intel-rapl:").partition(":")
            package = names.get(f"intel-rapl:{parent}") if below else None
            yield (f"{package}/{name}" if package else name), folder


def _reading(name: str, folder: Path) -> EnergyReading:
    try:
        energy_j = int((folder / "energy_uj").read_text()) / 1e6
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no number"
        return EnergyReading(zone=name, problem=f"{folder / 'energy_uj'} can't be read: {reason}")
    most = _text(folder / "max_energy_range_uj") or ""
    # The counter goes on at 0 after its maximum.
    wraps_at_j = (int(most) + 1) / 1e6 if most.isascii() and most.isdigit() else None
    return EnergyReading(zone=name, energy_j=energy_j, wraps_at_j=wraps_at_j)


def _text(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return None
