"""What an answer cost: shared out while it runs, told to the client, final in its record."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from cerberus_core.testing import FakeClock, Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_chunks
from cerberus_core.values import Record
from tests.conftest import Box, StartBox, endpoint
from tests.loading.conftest import Site, site

__all__ = ["site"]

pytestmark = pytest.mark.anyio

METERS = """
    from cerberus_core import hookimpl
    from cerberus_core.errors import Unavailable
    from cerberus_core.interfaces import EnergyMeter, GPUVendor
    from cerberus_core.values import GPU, Availability, EnergyReading

    gpu_j = cpu_j = 0.0
    reads = 0

    class Cards(GPUVendor):
        name = "cards"
        def available(self):
            return Availability(ok=True)
        def read(self):
            global reads
            reads += 1
            return [GPU(index=0, id="a", name="A", vendor="cards", energy_j=gpu_j, power_w=7.0)]

    class Zones(EnergyMeter):
        name = "zones"
        def available(self):
            return Availability(ok=True)
        def read(self):
            if cpu_j is None:
                raise Unavailable("only root may read it")
            return [EnergyReading(zone="package", energy_j=cpu_j)]

    @hookimpl
    def cerberus_gpu_vendors(setup):
        return [Cards()]

    @hookimpl
    def cerberus_energy_meters(setup):
        return [Zones()]
"""
ASK: dict[str, Any] = {
    "model": "up/m",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
IDLE_GPU_W, IDLE_CPU_W = 20.0, 10.0


class Metered:
    """A box with a card and a CPU on a clock that only moves with `pass_time`."""

    def __init__(self, box: Box, clock: FakeClock, meters: Any) -> None:
        self.box = box
        self.clock = clock
        self.meters = meters

    async def pass_time(self, seconds: float, gpu_w: float, cpu_w: float) -> None:
        """In half seconds, as the monitor reads."""
        for _ in range(round(seconds / 0.5)):
            self.meters.gpu_j += gpu_w / 2
            if self.meters.cpu_j is not None:
                self.meters.cpu_j += cpu_w / 2
            reads = self.meters.reads
            await self.clock.advance(0.5)
            with anyio.move_on_after(0.1):
                while self.meters.reads == reads:
                    await anyio.sleep(0.001)
            await anyio.sleep(0.01)

    async def records(self, count: int) -> list[Record]:
        await self.pass_time(1.0, IDLE_GPU_W, IDLE_CPU_W)
        return await self.box.records(count)


@pytest.fixture
async def metered(
    start_box: StartBox, upstream: ScriptedServer, site: Site
) -> AsyncIterator[Metered]:
    module = site.add("meters", METERS)
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(start_box(endpoint(upstream), clock=clock))
        made = Metered(box, clock, sys.modules[module])
        await made.pass_time(4, IDLE_GPU_W, IDLE_CPU_W)
        yield made


def usage_of(text: str) -> dict[str, Any]:
    events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
    usage: dict[str, Any] = events[-1]["usage"]
    return usage


async def test_the_joules_of_a_keys_requests_count_for_its_limit(
    metered: Metered, upstream: ScriptedServer
) -> None:
    http = metered.box.http
    limit = {"what": "joules", "per": "day", "most": 150}
    made = (await http.post("/api/keys", json={"name": "laptop", "limits": [limit]})).json()
    headers = {"authorization": f"Bearer {made['token']}"}
    for _ in range(2):
        wait = Wait()
        upstream.reply = Reply.stream([wait, *chat_chunks(["one ", "two "])])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: http.post("/v1/chat/completions", json=ASK, headers=headers))
            await wait.reached.wait()
            await metered.pass_time(1, IDLE_GPU_W + 90, IDLE_CPU_W)
            wait.go()
        await metered.records(1)
    [key] = (await http.get("/api/keys")).json()["keys"]
    records = await metered.box.records(2)
    assert key["day"]["joules"] == pytest.approx(sum(one.energy_j or 0.0 for one in records))
    assert key["day"]["joules"] == pytest.approx(180, rel=0.1)
    assert key["limits"][0]["reserved"] == pytest.approx(0, abs=1e-6)
    refused = await http.post("/v1/chat/completions", json=ASK, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "limit_reached")


async def test_two_overlapping_requests_add_up_to_the_meters(
    metered: Metered, upstream: ScriptedServer
) -> None:
    waits = {name: (Wait(), Wait()) for name in ("a", "b")}

    def reply(received: Any) -> Reply:
        first, last = waits[received.json()["user"]]
        events = chat_chunks(["one ", "two "])
        return Reply.stream([first, events[0], last, *events[1:]])

    upstream.reply = reply
    answers: dict[str, Any] = {}

    async def ask(name: str) -> None:
        answers[name] = await metered.box.http.post(
            "/v1/chat/completions", json={**ASK, "user": name}
        )

    meters = metered.meters
    before = meters.gpu_j, meters.cpu_j, metered.clock.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "a")
        await waits["a"][0].reached.wait()
        await metered.pass_time(1, 220, 30)
        waits["a"][0].go()
        await waits["a"][1].reached.wait()
        tasks.start_soon(ask, "b")
        await waits["b"][0].reached.wait()
        waits["b"][0].go()
        await waits["b"][1].reached.wait()
        await metered.pass_time(1, 320, 40)
        waits["a"][1].go()
        with anyio.fail_after(5):
            while "a" not in answers:
                await anyio.sleep(0.001)
        await metered.pass_time(1, 320, 40)
        waits["b"][1].go()
    records = await metered.records(2)
    seconds = metered.clock.monotonic() - before[2]
    gpu_j = meters.gpu_j - before[0] - IDLE_GPU_W * seconds
    cpu_j = meters.cpu_j - before[1] - IDLE_CPU_W * seconds
    assert sum(record.energy_gpu_j or 0 for record in records) == pytest.approx(gpu_j, rel=0.01)
    assert sum(record.energy_cpu_j or 0 for record in records) == pytest.approx(cpu_j, rel=0.01)
    for record in records:
        assert record.energy == "apportioned"
        assert record.energy_j == pytest.approx(
            (record.energy_gpu_j or 0) + (record.energy_cpu_j or 0), abs=1e-5
        )
        assert record.tok_per_j == pytest.approx(2 / (record.energy_j or 0), rel=0.01)
    told = usage_of(answers["a"].text)["cerberus"]
    assert told["energy"] == "estimated"
    [own] = [record for record in records if record.id == told["request_id"]]
    assert told["energy_j"] == pytest.approx(own.energy_j, rel=0.2)
    assert told["energy_gpu_j"] > told["energy_cpu_j"] > 0
    totals = (await metered.box.http.get("/api/usage")).json()["models"][0]
    assert totals["energy_j"] == pytest.approx(gpu_j + cpu_j, rel=0.01)
    assert totals["energy_gpu_j"] == pytest.approx(gpu_j, rel=0.01)


async def test_the_client_never_waits_for_a_meter_and_the_record_follows(
    metered: Metered, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.stream(chat_chunks(["Hel", "lo"]))
    answer = await metered.box.http.post("/v1/chat/completions", json=ASK)  # no time passes
    told = usage_of(answer.text)["cerberus"]
    assert (told["energy_j"], told["energy"], told["tok_per_j"]) == (None, None, None)
    assert (await metered.box.http.get("/api/requests")).json() == {"live": [], "recent": []}
    [record] = await metered.records(1)
    assert record.id == told["request_id"]


async def test_g32_a_meter_that_can_not_be_read_is_unknown_and_the_record_is_kept(
    metered: Metered, upstream: ScriptedServer
) -> None:
    wait = Wait()
    events = chat_chunks(["Hel", "lo"])
    upstream.reply = Reply.stream([wait, *events])
    metered.meters.cpu_j = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: metered.box.http.post("/v1/chat/completions", json=ASK))
        await wait.reached.wait()
        await metered.pass_time(1, 220, 0)
        wait.go()
        with anyio.fail_after(5):
            while (await metered.box.http.get("/api/requests")).json()["live"]:
                await anyio.sleep(0.001)
    await metered.pass_time(1, IDLE_GPU_W, 0)
    [record] = await metered.records(1)
    assert record.status == 200
    assert record.energy_gpu_j == pytest.approx(200, rel=0.01)
    assert (record.energy_cpu_j, record.energy) == (None, "estimated")


async def test_what_is_answered_elsewhere_costs_nothing_here(
    start_box: StartBox, upstream: ScriptedServer, site: Site
) -> None:
    site.add("meters", METERS)
    async with start_box(endpoint(upstream, more="local = false")) as box:
        await box.http.post("/v1/chat/completions", json=ASK)
        record = await box.record()
    assert (record.energy_j, record.energy, record.local) == (None, None, False)


async def test_the_gpus_are_told_with_what_meters_them(metered: Metered) -> None:
    told = (await metered.box.http.get("/api/gpus")).json()
    [gpu] = told["gpus"]
    assert (gpu["name"], gpu["power_w"], gpu["temp_c"], gpu["host"]) == ("A", 7.0, None, "local")
    assert told["gpu_energy_j"] > told["cpu_energy_j"] > 0
    assert [(meter["name"], meter["measures"]) for meter in told["meters"]] == [
        ("cards", "gpu"),
        ("zones", "cpu"),
    ]
    status = (await metered.box.http.get("/api/status")).json()
    assert (status["gpus"], status["gpu_power_w"], status["gpu_mem_used_mib"]) == (1, 7.0, None)
    assert status["gpu_energy_j"] >= told["gpu_energy_j"]


async def test_at_the_stop_the_records_that_wait_are_written(
    start_box: StartBox, upstream: ScriptedServer, site: Site
) -> None:
    site.add("meters", METERS)
    async with start_box(endpoint(upstream), clock=FakeClock()) as box:
        await box.http.post("/v1/chat/completions", json=ASK)
    lines = (box.folders.usage / "usage.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == [200]
