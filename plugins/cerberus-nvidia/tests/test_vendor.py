"""Cards by the real pynvml on a stub of NVML: what one tells, lacks, and how one is lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cerberus_nvidia.vendor import NvidiaVendor

from cerberus_core.errors import Unavailable
from cerberus_core.gpu import Monitor, Share
from cerberus_core.testing import FakeClock, check_gpu_vendors, check_package
from cerberus_core.values import GPU

NO_ENERGY = 2**64 - 1
GPU_IS_LOST, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 15, 9, 12


def test_package() -> None:
    check_package("nvidia")


def test_the_contract_is_kept(nvml: Any, tmp_path: Path) -> None:
    vendors = check_gpu_vendors("nvidia", tmp_path)
    assert list(vendors) == ["nvidia"]
    vendors["nvidia"].close()


def test_a_card_tells_all_there_is(nvml: Any) -> None:
    nvml.stub_process(0, 4242, 3 << 30)
    vendor = NvidiaVendor()
    assert vendor.available().detail == "Stub 0, Stub 1"
    one, two = vendor.read()
    assert one == GPU(
        index=0,
        id="GPU-stub-0",
        name="Stub 0",
        vendor="nvidia",
        mem_total_mib=24 * 1024,
        mem_used_mib=1024,
        power_w=25.5,
        power_limit_w=350.0,
        util_pct=7,
        temp_c=41,
        pstate="P8",
        energy_j=1000.0,
        processes={4242: 3072},
    )
    assert (two.id, two.energy_j, two.processes) == ("GPU-stub-1", 2000.0, {})
    vendor.close()
    assert nvml.stub_open_count() == 0


def test_what_a_card_does_not_tell_is_unknown(nvml: Any) -> None:
    nvml.stub_memory(0, 0, 0)
    nvml.stub_power(0, 0, 0)
    nvml.stub_energy(0, NO_ENERGY)
    nvml.stub_load(0, 0, 0, 32)
    nvml.stub_process(0, 7, 2**64 - 1)
    gpu = NvidiaVendor().read()[0]
    assert gpu == GPU(index=0, id="GPU-stub-0", name="Stub 0", vendor="nvidia", processes={7: None})


@pytest.mark.parametrize("code", [LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED])
def test_without_a_driver_it_says_so_and_is_asked_again(nvml: Any, code: int) -> None:
    nvml.stub_init_error(code)
    vendor = NvidiaVendor()
    state = vendor.available()
    assert (state.ok, bool(state.detail), "driver" in (state.hint or "")) == (False, True, True)
    with pytest.raises(Unavailable):
        vendor.read()
    nvml.stub_init_error(0)
    assert vendor.available().ok


def test_a_driver_without_cards_is_no_vendor(nvml: Any) -> None:
    nvml.stub_count(0)
    state = NvidiaVendor().available()
    assert (state.ok, state.detail) == (False, "the driver sees no card")


def test_a_driver_that_is_lost_in_the_middle_is_opened_anew(nvml: Any) -> None:
    vendor = NvidiaVendor()
    assert len(vendor.read()) == 2
    nvml.stub_driver_error(DRIVER_NOT_LOADED)
    for _ in range(3):
        with pytest.raises(Unavailable):
            vendor.read()
    assert nvml.stub_open_count() == 0
    nvml.stub_driver_error(0)
    assert [gpu.problem for gpu in vendor.read()] == [None, None]
    assert nvml.stub_open_count() == 1


def test_one_card_of_two_that_fails_keeps_its_name_and_costs_the_other_nothing(nvml: Any) -> None:
    vendor = NvidiaVendor()
    vendor.read()
    nvml.stub_card_error(0, GPU_IS_LOST)
    one, two = vendor.read()
    assert (one.id, one.name, one.mem_total_mib, one.mem_used_mib, one.energy_j) == (
        "GPU-stub-0", "Stub 0", 24 * 1024, None, None,
    )  # fmt: skip
    assert one.problem
    assert (two.problem, two.energy_j) == (None, 2000.0)


def test_a_card_that_never_answered_still_has_a_name(nvml: Any) -> None:
    nvml.stub_card_error(1, GPU_IS_LOST)
    one, two = NvidiaVendor().read()
    assert (one.problem, two.id) == (None, "nvidia:1")


def test_two_overlapping_requests_add_up_to_the_cards_counters(nvml: Any) -> None:
    asyncio.run(_two_requests(nvml))


class _Answer:
    pieces = 0


async def _two_requests(nvml: Any) -> None:
    clock, vendor = FakeClock(), NvidiaVendor()
    monitor = Monitor({"nvidia": vendor}, {}, clock=clock)
    millijoules = [10**9, 5 * 10**9]

    async def pass_time(seconds: float, *watts: float) -> None:
        await clock.advance(seconds)
        for i, w in enumerate(watts):
            millijoules[i] += round(w * seconds * 1000)
            nvml.stub_energy(i, millijoules[i])
        await monitor.refresh()

    for i in range(2):
        nvml.stub_energy(i, millijoules[i])
    await monitor.look()
    await monitor.refresh()
    await pass_time(5, 30, 20)
    before = list(millijoules)
    one, two, shares = _Answer(), _Answer(), list[Share]()
    first = monitor.ledger.begin(one)
    assert first is not None
    await pass_time(0.5, 330, 20)
    one.pieces = 20
    second = monitor.ledger.begin(two)
    assert second is not None
    await pass_time(0.5, 330, 220)
    one.pieces, two.pieces = 30, 10
    first.end(30, shares.append)
    await pass_time(0.5, 130, 220)
    two.pieces = 30
    second.end(30, shares.append)
    await pass_time(0.5, 30, 20)
    metered = sum(millijoules) / 1000 - sum(before) / 1000 - (30 + 20) * 2.0
    assert sum(share.gpu_j or 0 for share in shares) == pytest.approx(metered)
    assert [share.mark for share in shares] == ["apportioned", "apportioned"]
    assert (await monitor.refresh()).gpu_energy_j == pytest.approx(
        sum(millijoules) / 1000 - 6 * 10**6
    )
    await monitor.aclose()
