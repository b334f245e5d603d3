"""The NVIDIA plugin on a real card; skipped where there is none.

In a process of its own: a stub of NVML from other tests may live in this one.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

PROBE = """
import asyncio, json, sys
from cerberus_core.gpu import Monitor
from cerberus_core.platform import SystemClock
from cerberus_nvidia.vendor import NvidiaVendor

async def main():
    vendor = NvidiaVendor()
    state = vendor.available()
    if not state.ok:
        return {"skip": f"{state.detail}. {state.hint}"}
    monitor = Monitor({"nvidia": vendor}, {}, clock=SystemClock())
    await monitor.look()
    totals = []
    for _ in range(4):
        totals.append((await monitor.refresh()).gpu_energy_j)
        await asyncio.sleep(0.5)
    snapshot = await monitor.refresh()
    await monitor.aclose()
    import msgspec
    return {"totals": totals, "snapshot": msgspec.to_builtins(snapshot, str_keys=True)}

sys.stdout.write(json.dumps(asyncio.run(main()), default=str))
"""


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    """What two seconds of readings told."""
    if find_spec("cerberus_nvidia") is None:
        pytest.skip("cerberus-nvidia is not installed")
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    if "skip" in told:
        pytest.skip(f"no NVIDIA card here: {told['skip']}")
    return told


def test_every_card_tells_its_memory_and_power(read: dict[str, Any]) -> None:
    gpus = read["snapshot"]["gpus"]
    assert gpus
    assert len({gpu["id"] for gpu in gpus}) == len(gpus)
    for gpu in gpus:
        assert gpu["problem"] is None
        assert gpu["name"]
        assert gpu["mem_total_mib"] > gpu["mem_used_mib"] >= 0
        assert 0 < gpu["power_w"] < 2000
        assert 0 < gpu["temp_c"] < 120


def test_the_energy_rises_as_the_power_says(read: dict[str, Any]) -> None:
    totals = [joules for joules in read["totals"] if joules is not None]
    assert totals == sorted(totals)
    power_w = sum(gpu["power_w"] for gpu in read["snapshot"]["gpus"])
    seconds = 0.5 * (len(totals) - 1)
    assert 0.2 * power_w * seconds < totals[-1] - totals[0] < 5 * power_w * (seconds + 1)
