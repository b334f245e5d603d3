"""Memory on the real engine: estimated, then learned; room made without hurting a request."""

import os
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from cerberus_llamacpp.testing import copy_gguf

from cerberus_core.platform.memory import taken_by
from tests.conftest import Box, StartBox
from tests.e2e.conftest import MODEL, engines

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


async def plan(box: Box, model: str = MODEL) -> Any:
    return (await box.http.post(f"/api/models/plan/{model}")).json()


async def ask(box: Box, model: str = MODEL, tokens: int = 4) -> Any:
    return await box.http.post(
        "/v1/chat/completions",
        json={
            "model": model,
            "messages": [{"role": "user", "content": "Count to fifty."}],
            "max_tokens": tokens,
        },
        timeout=120,
    )


async def test_the_second_estimate_is_nearer_than_the_first(
    start_box: StartBox, engine_config: str
) -> None:
    async with start_box(engine_config) as box:
        first = await plan(box)
        assert first["source"] == "estimated"
        assert (await ask(box)).status_code == 200
        with anyio.fail_after(30):
            while (learned := await plan(box))["source"] != "learned":
                await anyio.sleep(0.01)
        assert learned["load_s"] > 0
        taken = learned["footprint"]["host"]
        estimated = first["footprint"]["host"]
        assert 0.5 * taken < estimated < 2 * taken, "the first one wasn't far off either"
        await box.http.post(f"/api/models/unload/{MODEL}")
    async with start_box(engine_config) as box:
        second = await plan(box)
        assert second["source"] == "learned"
        assert (await ask(box)).status_code == 200
        pids = [process.pid for process in engines(os.getpid())]
        really = await anyio.to_thread.run_sync(taken_by, pids)
        assert really is not None
        assert abs(second["footprint"]["host"] - really) < abs(estimated - really)


async def test_m03_a_model_leaves_for_another_but_not_in_mid_answer(
    start_box: StartBox, engine_config: str, models_folder: Path, starter_model: Path
) -> None:
    copy_gguf(starter_model, models_folder / "other.gguf", {})
    config = engine_config.replace(
        "[plugins.llamacpp]", "[engines]\nmax_loaded = 1\n[plugins.llamacpp]"
    )
    async with start_box(config) as box:
        statuses: list[int] = []

        async def one(model: str, tokens: int) -> None:
            statuses.append((await ask(box, model, tokens)).status_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, MODEL, 40)
            with anyio.fail_after(60):
                while not any(m["in_flight"] for m in await models(box)):
                    await anyio.sleep(0.02)
            tasks.start_soon(one, "llamacpp/other", 2)
        assert statuses == [200, 200]
        states = {m["id"]: m["state"] for m in await models(box)}
        assert states == {MODEL: "unloaded", "llamacpp/other": "ready"}


async def models(box: Box) -> Any:
    return (await box.http.get("/api/models")).json()["models"]


async def test_a_model_without_room_says_how_to_insist_and_answers_then(
    start_box: StartBox, engine_config: str
) -> None:
    tight = f"{engine_config}[engines]\nmemory_mib = 50\n"
    async with start_box(tight) as box:
        refused = await ask(box)
        assert refused.status_code == 503
        assert f"""'models."{MODEL}".oversize' true""" in refused.text.replace('\\"', '"')
    async with start_box(f'{tight}[models."{MODEL}"]\noversize = true\n') as box:
        told = await plan(box)
        assert (told["why"], told["missing"]["host"]) == (None, told["footprint"]["host"] - 50)
        assert (await ask(box)).status_code == 200
