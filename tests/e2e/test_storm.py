"""Every engine under one budget of memory, in a storm of requests."""

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync as in_thread
from cerberus_llamacpp.testing import copy_gguf

from tests.e2e.conftest import gone_within, start_daemon, stop_daemon
from tests.e2e.storm import Storm, Watch
from tests.stand_ins import stand_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

CLIENTS = 40
BUDGET_MIB = 500
MODEL_MIB = 250
"""What a stand-in's model takes; two of five models fit."""
CONFIG = """
blocked_plugins = ["hello", "openai", "amd", "nvidia", "rapl"]
[engines]
memory_mib = {budget}
max_wait_s = 2
queue_limit = 12
[models."ollama/one:1b"]
concurrency = 4
[plugins.llamacpp]
engine = "embedded"
folders = [{folder}]
threads = 1
parallel = 2
context = 256
[plugins.ollama]
base_url = "{ollama}"
[plugins.lmstudio]
base_url = "{lmstudio}"
"""
REAL = ["llamacpp/a", "llamacpp/b", "llamacpp/c"]
OLLAMA, LMSTUDIO, HUGE = "ollama/one:1b", "lmstudio/two", "ollama/huge:70b"


async def test_a_storm_stays_within_the_budget_and_hurts_nobody(
    tmp_path: Path, starter_model: Path, record_property: Callable[[str, object], None]
) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    for name in "abc":
        copy_gguf(starter_model, folder / f"{name}.gguf", {"test.name": name})
    ollama = stand_in("ollama", "fake_ollama").FakeOllama()
    lmstudio = stand_in("lmstudio", "fake_lmstudio").FakeLMStudio()
    ollama.overhead, ollama.unload_looks = 20 << 20, 2
    ollama.install("one:1b", MODEL_MIB << 20, ctx=128)
    ollama.install("huge:70b", 2 * BUDGET_MIB << 20)
    lmstudio.install("two", size=MODEL_MIB << 20)
    for server in (ollama, lmstudio):
        server.load_s, server.word_s = 0.3, 0.05

    def told() -> dict[str, int]:
        return {
            OLLAMA: (MODEL_MIB + 20) * len(ollama.loaded),
            LMSTUDIO: MODEL_MIB * len(lmstudio.instances),
        }

    async with ollama, lmstudio:
        config = CONFIG.format(
            budget=BUDGET_MIB,
            folder=json.dumps(str(folder)),
            ollama=ollama.url,
            lmstudio=lmstudio.url,
        )
        daemon = await in_thread(start_daemon, tmp_path, config)
        watch = Watch(daemon.process.pid, told)
        storm = Storm(daemon.url, daemon.headers, [*REAL, OLLAMA, LMSTUDIO, HUGE], 500, CLIENTS)
        try:
            watch.start()
            began = time.monotonic()
            await storm.rage()
            took = time.monotonic() - began
            in_flight, statuses = await once_quiet(daemon.url, daemon.headers)
            below = await in_thread(daemon.descendants)
        finally:
            watch.done.set()
            await in_thread(watch.join)
            await in_thread(stop_daemon, daemon)
        evicted = Counter(
            re.findall(r"evicted\s+model=(\S+)", (tmp_path / "serve.err").read_text())
        )
        loads = {model: len(watch.engines[model]) for model in REAL}
        loads |= {OLLAMA: ollama.loads["one:1b"], LMSTUDIO: lmstudio.loads["two"], HUGE: 0}
        facts = {
            model: {
                "loads": loads[model],
                "evicted": evicted[model],
                "MiB": watch.each.get(model, 0),
            }
            for model in storm.models
        }
        at_peak = ", ".join(f"{model} {mib}" for model, mib in watch.at_peak.items() if mib)
        record_property(
            "table",
            f"{storm.table(facts)}\n"
            f"{len(storm.outcomes)} requests of {CLIENTS} clients in {took:.0f} s; at most "
            f"{watch.peak_mib} of {BUDGET_MIB} MiB ({at_peak}), looked at {watch.samples} times",
        )

        ways = Counter(one.how for one in storm.outcomes)
        assert ways.keys() <= {"answered", "left", "overloaded", "no_room"}, ways
        assert ways["answered"] > 200, ways
        for one in storm.outcomes:
            if one.how == "overloaded":
                assert one.status == 429
                assert int(one.retry_after or 0) >= 1
            elif one.how == "no_room":
                assert (one.model, one.status) == (HUGE, 503)
        for status, how in ((200, "answered"), (429, "overloaded"), (503, "no_room")):
            # Who leaves may have an answer on its way already.
            assert ways[how] <= statuses[status] <= ways[how] + ways["left"], how

        assert watch.fault is None
        assert watch.samples > 100
        assert 2 * MODEL_MIB // 3 < watch.peak_mib <= BUDGET_MIB
        assert watch.twice == []
        assert watch.each[LMSTUDIO] == MODEL_MIB, "never a second instance"
        assert (ollama.hurt, lmstudio.hurt) == ([], [])
        for model in (*REAL, OLLAMA, LMSTUDIO):
            assert loads[model] - evicted[model] in (0, 1), (model, facts)
        if sys.platform == "linux":
            assert watch.checked
            for counted, mapped in watch.checked:
                assert abs(counted - mapped) < 16 + 0.1 * mapped  # one of them came a moment later

        assert set(in_flight.values()) == {0}
        assert gone_within(below, 5)
        assert (ollama.loaded, lmstudio.instances) == ({}, {})


async def once_quiet(url: str, headers: dict[str, str]) -> tuple[dict[str, int], Counter[int]]:
    """Requests in flight by model, and statuses of the records, once nobody asks any more."""
    async with httpx.AsyncClient(base_url=url, headers=headers) as http:
        with anyio.fail_after(10):
            while (requests := (await http.get("/api/requests?limit=1000")).json())["live"]:
                await anyio.sleep(0.05)
        models = (await http.get("/api/models")).json()["models"]
    in_flight = {model["id"]: model["in_flight"] for model in models}
    return in_flight, Counter(record["status"] for record in requests["recent"])
