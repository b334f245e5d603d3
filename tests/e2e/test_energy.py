"""Energy of a managed model on the real meters' plugins, from counter to `cerberus usage`."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from anyio.to_thread import run_sync as in_thread
from cerberus_nvidia.vendor import NvidiaVendor
from cerberus_rapl.meter import RaplMeter

from cerberus_core.testing import FakeClock
from tests.conftest import Box, running_box
from tests.e2e.conftest import clean_env, run_cli
from tests.stand_ins import stand_in

pytestmark = pytest.mark.anyio

CONFIG = """
blocked_plugins = ["hello", "llamacpp", "lmstudio", "openai", "amd"]
[plugins.ollama]
base_url = "{ollama}"
[plugins.rapl]
root = "{powercap}"
"""
ASK: dict[str, Any] = {
    "model": "ollama/m:1",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
CARDS_W, CPU_W = (30.0, 20.0), (15.0, 2.0)
"""What is drawn while nobody asks."""
CARDS_J, CPU_J = (5e6, 9e6), (490.0, 3.0)
"""Where the counters stand at the start; the package's soon begins anew."""
WRAPS_AT_UJ = 500_000_000
SINCE = ("--since", "2020-01-01")
ZONES = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "dram"}


class Meters:
    """The two cards, the package and its memory; and how often each plugin has read them."""

    def __init__(self, nvml: Any, powercap: Any) -> None:
        self.cards_j, self.cpu_j = list(CARDS_J), list(CPU_J)
        self.reads = {"nvidia": 0, "rapl": 0}
        self._nvml = nvml
        self._powercap = powercap
        for folder, name in ZONES.items():
            powercap.zone(folder, name, 0, WRAPS_AT_UJ - 1)
        self.draw(0, (0, 0), (0, 0))

    def draw(self, seconds: float, cards_w: Sequence[float], cpu_w: Sequence[float]) -> None:
        self.cards_j = [j + w * seconds for j, w in zip(self.cards_j, cards_w, strict=True)]
        self.cpu_j = [j + w * seconds for j, w in zip(self.cpu_j, cpu_w, strict=True)]
        for i, (joules, watts) in enumerate(zip(self.cards_j, cards_w, strict=True)):
            self._nvml.stub_energy(i, round(joules * 1e3))
            self._nvml.stub_power(i, round(watts * 1e3), 350_000)
        for folder, joules in zip(ZONES, self.cpu_j, strict=True):
            self._powercap.set(folder, round(joules * 1e6) % WRAPS_AT_UJ)

    def counting(self, name: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def counted(plugin: Any) -> Any:
            readings = read(plugin)
            self.reads[name] += 1
            return readings

        return counted


@attrs.define
class House:
    """A daemon, its meters, and a clock that `pass_time` turns."""

    box: Box
    clock: FakeClock
    meters: Meters
    tasks: Any
    shown: list[tuple[float, float]] = attrs.field(factory=list)
    """The totals of cards and CPU, after each half second."""
    held: dict[str, asyncio.Event] = attrs.field(factory=dict)
    said: dict[str, asyncio.Event] = attrs.field(factory=dict)
    told: dict[str, Any] = attrs.field(factory=dict)
    """What stood in the last chunk of each answer."""

    async def pass_time(
        self, seconds: float, cards_w: Sequence[float] = CARDS_W, cpu_w: Sequence[float] = CPU_W
    ) -> None:
        """In half seconds, as the monitor reads while somebody is answered."""
        for _ in range(round(seconds / 0.5)):
            self.meters.draw(0.5, cards_w, cpu_w)
            before = dict(self.meters.reads)
            await self.clock.advance(0.5)
            await self.read_since(before)
            gpus = (await self.box.http.get("/api/gpus")).json()
            self.shown.append((gpus["gpu_energy_j"] or 0.0, gpus["cpu_energy_j"] or 0.0))

    async def begin(self, name: str) -> None:
        """Its first word has come, and no other will until `end`."""
        self.held[name], self.said[name] = asyncio.Event(), asyncio.Event()

        async def ask() -> None:
            answer = await self.box.http.post("/v1/chat/completions", json={**ASK, "user": name})
            events = [e[6:] for e in answer.text.split("\n\n") if e.startswith("data: {")]
            self.told[name] = json.loads(events[-1])["usage"]["cerberus"]

        before = dict(self.meters.reads)
        self.tasks.start_soon(ask)
        with anyio.fail_after(5):
            await self.said[name].wait()
        await self.read_since(before)

    async def read_since(self, before: dict[str, int]) -> None:
        """Every meter was read anew, unless nobody wants to know."""
        with anyio.move_on_after(0.1):
            while any(self.meters.reads[name] == count for name, count in before.items()):
                await anyio.sleep(0.001)
        await anyio.sleep(0.01)

    async def end(self, name: str) -> None:
        self.held[name].set()
        with anyio.fail_after(5):
            while name not in self.told:
                await anyio.sleep(0.001)

    async def hold(self, body: Any, number: int) -> None:
        if number == 0:
            self.said[body["user"]].set()
            await self.held[body["user"]].wait()


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    stub = stand_in("nvidia", "nvml_stub")
    nvml = stub.library()
    if nvml is None:
        pytest.skip("no C compiler to build the stub of libnvidia-ml.so.1 with")
    stub.set_up(nvml)
    meters = Meters(nvml, stand_in("rapl", "conftest").Powercap(tmp_path / "powercap"))
    for name, reader in (("nvidia", NvidiaVendor), ("rapl", RaplMeter)):
        monkeypatch.setattr(reader, "read", meters.counting(name, reader.read))
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        ollama = await stack.enter_async_context(stand_in("ollama", "fake_ollama").FakeOllama())
        ollama.install("m:1", 300 << 20, ctx=128)
        config = CONFIG.format(ollama=ollama.url, powercap=tmp_path / "powercap")
        box = await stack.enter_async_context(running_box(tmp_path, config, clock=clock))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        made = House(box, clock, meters, tasks)
        ollama.hold = made.hold
        await made.pass_time(4)
        yield made
    nvml.stub_reset()


async def test_what_the_counters_advanced_is_idle_draw_and_the_shares_of_two_that_overlap(
    house: House, tmp_path: Path
) -> None:
    meters, began = house.meters, house.clock.monotonic()
    cards_j, cpu_j = sum(meters.cards_j), sum(meters.cpu_j)
    await house.begin("one")
    await house.pass_time(1.5, (330, 20), (45, 6))
    await house.begin("two")
    await house.pass_time(2, (330, 220), (60, 9))
    await house.end("one")
    await house.pass_time(1, (30, 220), (40, 5))
    await house.end("two")
    await house.pass_time(2)
    one, two = await records(house, "one", "two")
    idle_s = house.clock.monotonic() - began
    gpu_j = sum(meters.cards_j) - cards_j - sum(CARDS_W) * idle_s
    package_j = sum(meters.cpu_j) - cpu_j - sum(CPU_W) * idle_s
    assert one.energy_gpu_j + two.energy_gpu_j == pytest.approx(gpu_j, rel=0.002)
    assert one.energy_cpu_j + two.energy_cpu_j == pytest.approx(package_j, rel=0.002)
    assert [record.energy for record in (one, two)] == ["apportioned", "apportioned"]
    # Alone for a second and a half, two together, and the other alone for one.
    assert one.energy_gpu_j > 1.5 * 300
    assert two.energy_gpu_j > 1 * 200

    await house.begin("alone")
    await house.pass_time(1, (330, 20), (45, 6))
    await house.end("alone")
    await house.pass_time(1.5)
    [alone] = await records(house, "alone")
    assert alone.energy == "measured"
    assert alone.energy_gpu_j == pytest.approx(300, rel=0.002)
    assert alone.energy_cpu_j == pytest.approx(30 + 4, rel=0.002)

    # What the clients were told, what the records hold and what `cerberus usage` sums up.
    for name, record in (("one", one), ("two", two), ("alone", alone)):
        told = house.told[name]
        assert told["energy"] == "estimated"
        for figure in ("energy_j", "energy_gpu_j", "energy_cpu_j"):
            assert told[figure] == pytest.approx(getattr(record, figure), rel=0.01)
    env = clean_env(tmp_path)
    [row] = json.loads((await in_thread(run_cli, env, "usage", *SINCE, "--json")).stdout)["models"]
    last = await in_thread(run_cli, env, "usage", "--last", "3", "--json")
    shown = json.loads(last.stdout)["requests"]
    for figure in ("energy_j", "energy_gpu_j", "energy_cpu_j"):
        whole = sum(getattr(record, figure) for record in (one, two, alone))
        assert row[figure] == pytest.approx(whole, abs=1e-3)
        assert sum(request[figure] for request in shown) == pytest.approx(whole, abs=1e-3)

    before = dict(meters.reads)
    while meters.reads == before:  # until an old reading is renewed
        await house.pass_time(0.5)
    for kind in (0, 1):
        line = [pair[kind] for pair in house.shown]
        assert line == sorted(line), "a total never falls"
    assert house.shown[-1] == pytest.approx(
        (sum(meters.cards_j) - sum(CARDS_J), sum(meters.cpu_j) - sum(CPU_J)), rel=0.002
    )


async def records(house: House, *names: str) -> list[Any]:
    """Theirs, in this order."""
    found = {record.id: record for record in await house.box.records(len(house.told))}
    return [found[house.told[name]["request_id"]] for name in names]
