"""CPU packages on a fake powercap: wraps, what can't be read, and no zone counted twice."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from cerberus_rapl.meter import RaplMeter

from cerberus_core.errors import Unavailable
from cerberus_core.gpu import Monitor, Share
from cerberus_core.testing import FakeClock, check_energy_meters, check_package
from cerberus_core.values import EnergyReading


def test_package() -> None:
    check_package("rapl")


def test_the_contract_is_kept(powercap: Any, tmp_path: Path) -> None:
    settings = {"root": str(powercap.usual().root)}
    assert list(check_energy_meters("rapl", tmp_path, settings)) == ["rapl"]


def test_packages_and_their_memory_are_read_and_nothing_twice(powercap: Any) -> None:
    meter = RaplMeter(str(powercap.usual().root))
    assert meter.available().detail == "package-0, package-0/dram"
    assert meter.read() == [
        EnergyReading(zone="package-0", energy_j=1.0, wraps_at_j=pytest.approx(262143.328851)),
        EnergyReading(zone="package-0/dram", energy_j=0.3, wraps_at_j=pytest.approx(262143.328851)),
    ]


def test_dies_of_one_package_are_zones_of_their_own(powercap: Any) -> None:
    powercap.zone("intel-rapl:0", "package-0-die-0", 1)
    powercap.zone("intel-rapl:1", "package-0-die-1", 2)
    zones = [reading.zone for reading in RaplMeter(str(powercap.root)).read()]
    assert zones == ["package-0-die-0", "package-0-die-1"]


def test_g32_no_powercap_at_all_is_no_meter_and_no_error(tmp_path: Path) -> None:
    for root in (tmp_path / "none", tmp_path):
        state = RaplMeter(str(root)).available()
        assert (state.ok, bool(state.detail), bool(state.hint)) == (False, True, True)
        with pytest.raises(Unavailable):
            RaplMeter(str(root)).read()


def test_g32_an_unreadable_counter_is_unknown_and_the_hint_opens_it(powercap: Any) -> None:
    _unreadable(powercap.usual().root / "intel-rapl:0" / "energy_uj")
    meter = RaplMeter(str(powercap.root))
    package, dram = meter.read()
    assert (package.energy_j, dram.energy_j) == (None, 0.3)
    assert "energy_uj can't be read" in str(package.problem)
    assert meter.available().ok
    _unreadable(powercap.root / "intel-rapl:0:2" / "energy_uj")
    state = meter.available()
    assert (state.ok, "udev" in (state.hint or "")) == (False, True)
    assert [reading.energy_j for reading in meter.read()] == [None, None]


@pytest.mark.parametrize("text", ["", "much\n", "\x00\xff"])
def test_g32_nonsense_is_unknown(powercap: Any, text: str) -> None:
    path = powercap.zone("intel-rapl:0", "package-0", 5)
    (path / "energy_uj").write_bytes(text.encode("latin-1"))
    [reading] = RaplMeter(str(powercap.root)).read()
    assert (reading.energy_j, bool(reading.problem)) == (None, True)


def test_g32_package_and_memory_wrap_at_different_times(powercap: Any) -> None:
    most = 1_000_000_000 - 1
    package = powercap.zone("intel-rapl:0", "package-0", most - 10_000_000, most)
    powercap.zone("intel-rapl:0:0", "dram", most - 30_000_000, most)
    totals = asyncio.run(
        _totals(
            powercap,
            [
                ("intel-rapl:0", 20_000_000 - 1, "intel-rapl:0:0", most - 20_000_000),  # 30 + 10
                ("intel-rapl:0", 60_000_000 - 1, "intel-rapl:0:0", 0),  # 40 + 20, and a µJ
            ],
        )
    )
    assert totals == pytest.approx([40.0, 100.0], abs=1e-4)
    assert package.exists()


def test_g32_a_wrap_at_an_unreadable_maximum_takes_nothing_away(powercap: Any) -> None:
    powercap.zone("intel-rapl:0", "package-0", 900_000_000, None)
    powercap.zone("intel-rapl:0:0", "dram", 0)
    steps = [
        ("intel-rapl:0", 950_000_000, "intel-rapl:0:0", 1_000_000),
        ("intel-rapl:0", 3_000_000, "intel-rapl:0:0", 2_000_000),
        ("intel-rapl:0", 53_000_000, "intel-rapl:0:0", 3_000_000),
    ]
    assert asyncio.run(_totals(powercap, steps)) == pytest.approx([51, 52, 103])


def test_two_overlapping_requests_add_up_to_the_counters(powercap: Any) -> None:
    """On counters that wrap meanwhile."""
    most = 500_000_000 - 1
    powercap.zone("intel-rapl:0", "package-0", 400_000_000, most)
    powercap.zone("intel-rapl:0:0", "dram", 0, most)
    shares, metered = asyncio.run(_two_requests(powercap, most))
    assert sum(share.cpu_j or 0 for share in shares) == pytest.approx(metered)
    assert [share.mark for share in shares] == ["apportioned", "apportioned"]
    assert [share.gpu_j for share in shares] == [None, None]


async def _totals(powercap: Any, steps: list[tuple[str, int, str, int]]) -> list[float | None]:
    clock = FakeClock()
    monitor = Monitor({}, {"rapl": RaplMeter(str(powercap.root))}, clock=clock)
    await monitor.look()
    await monitor.refresh()
    totals = []
    for package, package_uj, dram, dram_uj in steps:
        await clock.advance(1)
        powercap.set(package, package_uj)
        powercap.set(dram, dram_uj)
        totals.append((await monitor.refresh()).cpu_energy_j)
    return totals


class _Answer:
    pieces = 0


async def _two_requests(powercap: Any, most: int) -> tuple[list[Share], float]:
    clock = FakeClock()
    monitor = Monitor({}, {"rapl": RaplMeter(str(powercap.root))}, clock=clock)
    spent = [400.0, 0.0]

    async def pass_time(seconds: float, package_w: float, dram_w: float) -> None:
        await clock.advance(seconds)
        spent[0] += package_w * seconds
        spent[1] += dram_w * seconds
        for folder, joules in zip(("intel-rapl:0", "intel-rapl:0:0"), spent, strict=True):
            powercap.set(folder, round(joules * 1e6) % (most + 1))
        await monitor.refresh()

    await monitor.look()
    await monitor.refresh()
    await pass_time(5, 15, 2)
    before, one, two, shares = sum(spent), _Answer(), _Answer(), list[Share]()
    first = monitor.ledger.begin(one)
    second = monitor.ledger.begin(two)
    assert first is not None
    assert second is not None
    await pass_time(0.5, 95, 12)
    one.pieces, two.pieces = 12, 3
    first.end(12, shares.append)
    await pass_time(0.5, 65, 8)
    second.end(9, shares.append)
    await pass_time(0.5, 15, 2)
    return shares, sum(spent) - before - (15 + 2) * 1.5


def _unreadable(file: Path) -> None:
    """For root too: a folder in its place is no file."""
    if os.geteuid() == 0:
        file.unlink()
        file.mkdir()
    else:
        file.chmod(0)
