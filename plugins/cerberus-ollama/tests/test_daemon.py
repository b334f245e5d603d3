"""A whole daemon over the stand-in: what a person sees of an Ollama behind it."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from cerberus_core.testing import FakeClock
from tests.conftest import Box, blocking_calls, running_box  # noqa: F401 guards these tests

pytestmark = pytest.mark.anyio
CONFIG = """
blocked_plugins = ["hello", "llamacpp", "openai", "amd", "nvidia", "rapl"]
[engines]
ttl_s = 60
[plugins.ollama]
base_url = "{url}"
"""
ASK = {"model": "ollama/m:1", "messages": [{"role": "user", "content": "hi"}]}


async def states(box: Box) -> dict[str, str]:
    rows = (await box.http.get("/api/models")).json()["models"]
    return {row["id"]: row["state"] for row in rows}


async def until(box: Box, model: str, state: str) -> None:
    with anyio.fail_after(10):
        while (await states(box))[model] != state:  # noqa: ASYNC110 any change may be it
            await anyio.sleep(0.01)


async def test_a_request_loads_answers_and_idleness_unloads(fake: Any, tmp_path: Path) -> None:
    fake.install("m:1")
    clock = FakeClock(fake.now)
    async with running_box(tmp_path, CONFIG.format(url=fake.url), clock=clock) as box:
        for stream in (False, True):
            answer = await box.http.post("/v1/chat/completions", json=ASK | {"stream": stream})
            assert answer.status_code == 200
        record = await box.record()
        assert (record.prompt_tokens, record.completion_tokens) == (3, 2)
        assert (record.local, record.backend) == (True, "ollama")
        assert (await states(box))["ollama/m:1"] == "ready"
        assert fake.loaded["m:1"].year == 2318, "what /v1 asks leaves the term alone"
        await clock.advance(61)
        await until(box, "ollama/m:1", "unloaded")
        assert fake.loaded == {}


async def planned(box: Box, model: str) -> dict[str, Any]:
    return (await box.http.post(f"/api/models/plan/{model}")).json()  # type: ignore[no-any-return]


async def test_a_model_of_others_shows_and_is_taken_over(fake: Any, tmp_path: Path) -> None:
    fake.install("m:1")
    fake.loaded["m:1"] = fake.now
    async with running_box(tmp_path, CONFIG.format(url=fake.url)) as box:
        assert (await states(box))["ollama/m:1"] == "ready"
        with anyio.fail_after(5):
            while not (plan := await planned(box, "ollama/m:1"))["footprint"]:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert plan["footprint"] == {"host": 5120}, "as Ollama tells it, and no guess"
        assert (await box.http.post("/v1/chat/completions", json=ASK)).status_code == 200
        await box.http.post("/api/models/unload/ollama/m:1")
        assert fake.loaded == {}


async def test_an_ollama_that_is_down_is_told_to_who_asks(fake: Any, tmp_path: Path) -> None:
    await fake.stop()
    async with running_box(tmp_path, CONFIG.format(url=fake.url)) as box:
        answer = await box.http.post("/v1/chat/completions", json=ASK)
        assert answer.status_code == 503
        assert "ollama serve" in answer.text
