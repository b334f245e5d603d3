"""A folder like the kernel's /sys/class/powercap."""

from pathlib import Path

import pytest


class Powercap:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def zone(self, folder: str, name: str, energy_uj: int, most: int | None = 262143328850) -> Path:
        path = self.root / folder
        path.mkdir(exist_ok=True)
        (path / "name").write_text(f"{name}\n")
        if most is not None:
            (path / "max_energy_range_uj").write_text(f"{most}\n")
        self.set(folder, energy_uj)
        return path

    def set(self, folder: str, energy_uj: int) -> None:
        file = self.root / folder / "energy_uj"
        whole = file.with_suffix(".new")  # nobody may read it half written
        whole.write_text(f"{energy_uj}\n")
        whole.replace(file)

    def usual(self) -> "Powercap":
        """A package with all that may stand below and beside it."""
        self.zone("intel-rapl:0", "package-0", 1_000_000)
        self.zone("intel-rapl:0:0", "core", 900_000)
        self.zone("intel-rapl:0:1", "uncore", 50_000)
        self.zone("intel-rapl:0:2", "dram", 300_000)
        self.zone("intel-rapl:1", "psys", 2_000_000)
        self.zone("intel-rapl-mmio:0", "package-0", 1_000_000)
        (self.root / "intel-rapl").mkdir()
        (self.root / "intel-rapl" / "enabled").write_text("1\n")
        return self


@pytest.fixture
def powercap(tmp_path: Path) -> Powercap:
    return Powercap(tmp_path / "powercap")
