"""LM Studio's models, on the stand-in."""

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from cerberus_lmstudio import backend as module
from cerberus_lmstudio.backend import WATCH_S, LMStudio
from cerberus_lmstudio.settings import Settings

from cerberus_core.errors import LoadFailed, ModelNotFound, Unavailable
from cerberus_core.testing import FakeClock
from cerberus_core.values import LoadPlan, ModelInfo

pytestmark = pytest.mark.anyio
LOAD, UNLOAD = "POST /api/v1/models/load", "POST /api/v1/models/unload"


def make(fake: Any, lms: str | None = None, **settings: Any) -> LMStudio:
    return LMStudio(fake.url, Settings(**settings), lms)


async def only(backend: LMStudio) -> ModelInfo:
    [model] = await backend.list()
    return model


async def load(backend: LMStudio, model: ModelInfo, plan: LoadPlan | None = None) -> Any:
    return await backend.load(model, plan or LoadPlan(), lambda _: None)


async def test_a_model_is_listed_with_what_it_can_do(fake: Any) -> None:
    fake.install("qwen2-vl", vision=True)
    fake.install("nomic", "embedding")
    fake.instances["nomic"] = ("nomic", 2048)
    model, embedding = await make(fake).list()
    assert (model.id, model.size_mib, model.ctx) == ("lmstudio/qwen2-vl", 4096, 32768)
    assert (model.detail, model.state, model.managed) == ("7B Q4_0 gguf", "unloaded", True)
    assert model.capabilities == {"chat", "completion", "vision"}
    assert (embedding.capabilities, embedding.state) == ({"embed"}, "ready")


async def test_an_older_one_is_listed_too(fake: Any) -> None:
    fake.apis = {"v0"}
    fake.install("qwen2-vl", vision=True)
    fake.install("nomic", "embedding")
    backend = make(fake)
    model, embedding = await backend.list()
    assert (model.ctx, model.size_mib, model.detail) == (131072, None, "Q4_K_M gguf")
    assert "vision" in model.capabilities
    assert embedding.capabilities == {"embed"}
    assert "older" in ((await backend.available()).detail or "")


async def test_load_and_unload(fake: Any) -> None:
    fake.install("m")
    backend = make(fake)
    model = await only(backend)
    place = await load(backend, model, LoadPlan(context=8192))
    assert fake.bodies(LOAD) == [{"model": "m", "echo_load_config": True, "context_length": 8192}]
    assert (place.base_url, place.model, place.ctx) == (f"{fake.url}/v1", "m", 8192)
    assert (place.local, place.backend, place.headers) == (True, "lmstudio", {})
    await backend.unload(model)
    assert (fake.instances, fake.bodies(UNLOAD)) == ({}, [{"instance_id": "m"}])
    await backend.unload(model)
    assert len(fake.bodies(UNLOAD)) == 1


async def test_a_model_that_is_there_is_not_loaded_a_second_time(fake: Any) -> None:
    fake.install("m")
    fake.instances["m:2"] = ("m", 16384)
    backend = make(fake)
    model = await only(backend)
    assert model.state == "ready"
    place = await load(backend, model)
    assert (place.model, place.ctx, fake.bodies(LOAD)) == ("m:2", 16384, [])
    await load(backend, model)
    assert list(fake.instances) == ["m:2"]


@pytest.mark.parametrize("field", ["model_instance_id", "somewhere_else"])
async def test_the_instance_is_found_whatever_its_field_is_called(fake: Any, field: str) -> None:
    fake.install("m")
    fake.id_field = field
    backend = make(fake)
    assert (await load(backend, await only(backend))).model == "m"


async def test_an_older_one_loads_through_lms(fake: Any, tmp_path: Path) -> None:
    fake.apis = {"v0"}
    fake.install("org/m")
    backend = make(fake, fake.lms(tmp_path))
    model = await only(backend)
    place = await load(backend, model, LoadPlan(context=512, parallel=2))
    [command] = fake.commands
    assert command == [
        "load", "org/m", "--identifier", "org/m", "--yes",
        "--context-length", "512", "--parallel", "2",
    ]  # fmt: skip
    assert place.model == "org/m"
    await backend.unload(model)
    assert (fake.commands[1], fake.instances) == (["unload", "org/m"], {})


async def test_an_older_one_without_lms_says_what_to_do(fake: Any) -> None:
    fake.apis = {"v0"}
    fake.install("m")
    backend = make(fake)
    with pytest.raises(Unavailable, match="lms") as caught:
        await load(backend, await only(backend))
    assert "Update" in (caught.value.hint or "")


async def test_an_lms_that_fails_tells_its_words(fake: Any, tmp_path: Path) -> None:
    fake.apis = {"v0"}
    fake.install("m")
    fake.lms_fails = "Error: not enough memory"
    backend = make(fake, fake.lms(tmp_path))
    model = await only(backend)
    with pytest.raises(LoadFailed, match="not enough memory"):
        await load(backend, model)
    with pytest.raises(Unavailable, match="can't be run"):
        await load(make(fake, str(tmp_path / "gone")), model)


async def test_an_estimate_is_what_lms_says_else_the_size(fake: Any, tmp_path: Path) -> None:
    fake.install("m")
    model = await only(make(fake))
    told = await make(fake, fake.lms(tmp_path)).estimate(model, LoadPlan(context=99))
    assert told is not None
    assert told.total_mib == 5007  # 5.25 GB
    assert fake.commands == [["load", "m", "--estimate-only", "--context-length", "99"]]
    fake.lms_fails = "unknown option"
    for lms in (None, fake.lms(tmp_path)):
        told = await make(fake, lms).estimate(model, LoadPlan())
        assert told is not None
        assert told.total_mib == 4096


async def test_what_it_does_not_do_of_a_plan_is_told(fake: Any) -> None:
    fake.install("m")
    plan = LoadPlan(context=1, parallel=2, cache_type_k="q8_0")
    backend = make(fake)
    await backend.list()
    assert backend.ignores(plan).keys() == {"parallel", "cache_type_k"}
    fake.apis = {"v0"}
    await backend.list()
    assert backend.ignores(plan).keys() == {"cache_type_k"}, "`lms` takes --parallel"


async def test_a_guess_starts_no_program_and_an_estimate_starts_it_once(
    fake: Any, tmp_path: Path
) -> None:
    fake.install("m")
    backend = make(fake, fake.lms(tmp_path))
    model = await only(backend)
    guess = await backend.guess(model, LoadPlan())
    assert guess is not None
    assert (guess.total_mib, fake.commands) == (model.size_mib, [])
    for _ in range(2):
        told = await backend.estimate(model, LoadPlan())
        assert told is not None
        assert told.total_mib == 5007
    assert len(fake.commands) == 1
    assert await backend.guess(model, LoadPlan()) == told


async def test_a_load_that_fails_tells_lm_studios_words(fake: Any) -> None:
    fake.install("m")
    backend = make(fake)
    model = await only(backend)
    path = "/api/v1/models/load"
    fake.answers[path] = (500, b'{"error": {"message": "Model loading was stopped"}}')
    with pytest.raises(LoadFailed, match="loading was stopped"):
        await load(backend, model)
    fake.answers[path] = (400, b'{"error": "guardrails"}')
    with pytest.raises(LoadFailed, match="guardrails"):
        await load(backend, model)
    fake.answers[path] = (200, b'{"error": "Unexpected endpoint or method"}')
    with pytest.raises(LoadFailed, match="Unexpected endpoint"):
        await load(backend, model)
    fake.answers[path] = (200, b"{}")
    with pytest.raises(LoadFailed, match="did not say where"):
        await load(backend, model)
    fake.answers.clear()
    fake.models.clear()
    with pytest.raises(ModelNotFound, match="no m"):
        await load(backend, model)


async def test_a_load_that_is_broken_off_leaves_nothing(fake: Any) -> None:
    fake.install("m")
    fake.load_gate = asyncio.Event()
    backend = make(fake)
    model = await only(backend)
    with anyio.move_on_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load, backend, model)
            await fake.load_begun.wait()
            fake.instances["m"] = ("m", 1)  # it came to its end just now
            tasks.cancel_scope.cancel()
    assert fake.instances == {}


async def test_a_model_that_was_unloaded_there_is_noticed(fake: Any) -> None:
    fake.install("m")
    clock = FakeClock()
    backend = LMStudio(fake.url, Settings(), None, clock)
    model = await only(backend)
    await load(backend, model)
    watching = asyncio.ensure_future(backend.gone(model))

    async def look() -> None:
        await clock.until_sleeping()
        await clock.advance(WATCH_S)
        with anyio.fail_after(5):
            while not (clock.sleepers or watching.done()):  # noqa: ASYNC110 either ends it
                await asyncio.sleep(0)

    await look()
    assert not watching.done()
    fake.answers["/api/v1/models"] = (500, b"oops")
    fake.answers["/api/v0/models"] = (500, b"oops")
    await look()
    assert not watching.done()
    fake.answers.clear()
    fake.instances.clear()
    await look()
    assert "dropped m" in (await watching).why


async def test_one_that_ended_is_noticed_and_says_how_to_start_it(fake: Any) -> None:
    fake.install("m")
    clock = FakeClock()
    backend = LMStudio(fake.url, Settings(), None, clock)
    model = await only(backend)
    await load(backend, model)
    watching = asyncio.ensure_future(backend.gone(model))
    await clock.until_sleeping()
    await fake.stop()
    await clock.advance(WATCH_S)
    with anyio.fail_after(5):
        assert "does not run" in (await watching).why
    with anyio.fail_after(2), pytest.raises(Unavailable, match="does not run") as caught:
        await backend.list()
    assert "lms server start" in (caught.value.hint or "")
    state = await backend.available()
    assert (state.ok, state.hint) == (False, caught.value.hint)
    await backend.unload(model)  # what is down holds nothing


async def test_the_token_is_sent_and_a_refused_one_names_its_setting(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.install("m")
    fake.token = "sk-1"
    backend = make(fake, api_key="sk-1")
    place = await load(backend, await only(backend))
    assert place.headers == {"authorization": "Bearer sk-1"}
    assert "sk-1" not in repr(place)
    with pytest.raises(Unavailable, match="refused the API token") as caught:
        await make(fake, api_key="sk-2").list()
    assert "plugins.lmstudio.api_key" in (caught.value.hint or "")
    assert "sk-2" not in f"{caught.value} {caught.value.hint}"
    monkeypatch.setenv("LM_TOKEN", "sk-1\n")
    assert (await only(make(fake, api_key_env="LM_TOKEN"))).name == "m"
    monkeypatch.delenv("LM_TOKEN")
    with pytest.raises(Unavailable) as caught:
        await make(fake, api_key_env="LM_TOKEN").list()
    assert "LM_TOKEN" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, b"[]"), (200, b"\xff"), (404, b"no"), (302, b""), (200, b"{}")],
)
async def test_what_is_no_lm_studio_is_told_with_a_hint(
    fake: Any, status: int, body: bytes
) -> None:
    fake.answers |= {f"/api/{api}/models": (status, body) for api in ("v0", "v1")}
    with pytest.raises(Unavailable) as caught:
        await make(fake).list()
    assert "base_url" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "rows",
    [
        [None, 3, {}, {"key": ""}, {"key": "a\nb"}, {"key": "--yes"}, {"key": "x" * 300}],
        [{"key": "m", "size_bytes": -1, "quantization": 3, "capabilities": [], "type": 1}],
        [{"key": "m", "size_bytes": True, "loaded_instances": [None, {}, {"id": 3}]}] * 2,
    ],
)
async def test_odd_rows_cost_no_more_than_themselves(fake: Any, rows: Any) -> None:
    fake.answers["/api/v1/models"] = (200, json.dumps({"models": rows}).encode())
    for model in await make(fake).list():
        assert (model.name, model.size_mib, model.detail, model.state) == (
            "m", None, None, "unloaded",
        )  # fmt: skip


async def test_another_machines_memory_is_not_ours(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_local", lambda _: False)
    fake.install("m")
    backend = make(fake, fake.lms(tmp_path))
    model = await only(backend)
    assert model.local is False
    assert await backend.estimate(model, LoadPlan()) is None
    assert fake.commands == []
