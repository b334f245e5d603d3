"""Ollama's models, on the stand-in."""

import asyncio
from datetime import timedelta
from typing import Any

import anyio
import pytest
from cerberus_ollama import backend as module
from cerberus_ollama.backend import WATCH_S, Ollama

from cerberus_core.errors import (
    BadRequest,
    LoadFailed,
    ModelNotFound,
    Overloaded,
    Unavailable,
)
from cerberus_core.testing import FakeClock
from cerberus_core.values import Gone, LoadPlan, ModelInfo, PullProgress

pytestmark = pytest.mark.anyio
GIB = 1 << 30


async def only(backend: Ollama) -> ModelInfo:
    [model] = await backend.list()
    return model


async def load(backend: Ollama, model: ModelInfo) -> Any:
    return await backend.load(model, LoadPlan(), lambda _: None)


async def test_a_model_is_listed_with_what_it_can_do(fake: Any) -> None:
    fake.install("llava:7b", caps=["completion", "vision", "tools"])
    model = await only(Ollama(fake.url))
    assert (model.id, model.backend, model.name) == ("ollama/llava:7b", "ollama", "llava:7b")
    assert (model.size_mib, model.ctx, model.detail) == (4096, 131072, "7B Q4_0 gguf")
    assert model.capabilities == {"chat", "completion", "vision"}
    assert (model.local, model.managed, model.state) == (True, True, "unloaded")


async def test_a_model_is_asked_about_once_and_again_when_it_changed(fake: Any) -> None:
    fake.install("m:1")
    backend = Ollama(fake.url)
    await backend.list()
    await backend.list()
    assert len(fake.bodies("POST /api/show")) == 1
    fake.models["m:1"] |= {"digest": "f" * 64, "caps": ["completion", "vision"]}
    assert "vision" in (await only(backend)).capabilities


async def test_what_tags_say_of_capabilities_counts(fake: Any) -> None:
    fake.install("m:1", caps=["completion", "vision"])
    fake.models["m:1"]["tags_caps"] = True
    fake.answers["/api/show"] = (500, b"{}")
    model = await only(Ollama(fake.url))
    assert model.capabilities == {"chat", "completion", "vision"}
    assert model.ctx is None


async def test_one_that_others_loaded_is_ready(fake: Any) -> None:
    fake.install("m:1")
    fake.loaded["m:1"] = fake.now + timedelta(minutes=5)
    backend = Ollama(fake.url)
    model = await only(backend)
    assert model.state == "ready"


async def test_a_model_of_ollamas_cloud_is_neither_local_nor_loaded(fake: Any) -> None:
    fake.install("gpt-oss:120b-cloud")
    fake.models["gpt-oss:120b-cloud"]["remote"] = "https://ollama.com:443"
    backend = Ollama(fake.url)
    model = await only(backend)
    assert (model.local, model.managed, model.state, model.size_mib) == (
        False, False, "ready", None,
    )  # fmt: skip
    place = await load(backend, model)
    assert (place.local, fake.bodies("POST /api/generate")) == (False, [])
    assert await backend.estimate(model, LoadPlan()) is None
    assert await backend.taken(model) is None


async def test_layers_on_the_gpu_are_asked_for_once_and_the_rest_of_a_plan_is_told(
    fake: Any,
) -> None:
    fake.install("m:1")
    clock = FakeClock(fake.now)
    backend = Ollama(fake.url, clock)
    model = await only(backend)
    plan = LoadPlan(gpu_layers=20, context=8192, cache_type_k="q8_0", draft="x")
    await backend.load(model, plan, lambda _: None)
    fake.loaded["m:1"] = fake.now  # somebody gave it a term: it is renewed
    watching = asyncio.ensure_future(backend.gone(model))
    await clock.until_sleeping()
    await clock.advance(WATCH_S)
    await clock.until_sleeping()
    watching.cancel()
    asked = [body.get("options") for body in fake.bodies("POST /api/generate")]
    assert asked == [{"num_gpu": 20}, None], "another number would load it anew"
    told = backend.ignores(plan)
    assert told.keys() == {"context", "cache_type_k", "draft"}
    assert "OLLAMA_CONTEXT_LENGTH" in told["context"]
    assert "num_ctx" in told["context"]
    assert "OLLAMA_KV_CACHE_TYPE" in told["cache_type_k"]


async def test_a_load_stays_until_we_say_otherwise(fake: Any) -> None:
    fake.install("m:1")
    backend = Ollama(fake.url)
    model = await only(backend)
    place = await load(backend, model)
    assert (place.base_url, place.model, place.ctx) == (f"{fake.url}/v1", "m:1", 4096)
    assert (place.backend, place.local, place.headers) == ("ollama", True, {})
    [asked] = fake.bodies("POST /api/generate")
    assert asked == {"model": "m:1", "stream": False, "keep_alive": -1}
    await load(backend, model)
    fake.unload_looks = 2
    await backend.unload(model)
    assert fake.loaded == {}
    await backend.unload(model)


async def test_a_model_for_embeddings_is_loaded_by_embedding(fake: Any) -> None:
    fake.install("e:1", caps=["embedding"])
    backend = Ollama(fake.url)
    model = await only(backend)
    assert model.capabilities == {"embed"}
    await load(backend, model)
    assert list(fake.loaded) == ["e:1"]
    await backend.unload(model)
    assert fake.loaded == {}


async def test_a_load_that_fails_tells_ollamas_words(fake: Any) -> None:
    fake.install("m:1")
    backend = Ollama(fake.url)
    model = await only(backend)
    words = b'{"error": "model requires more system memory (8.0 GiB) than is available"}'
    fake.answers["/api/generate"] = (500, words)
    with pytest.raises(LoadFailed, match="requires more system memory"):
        await load(backend, model)
    fake.answers["/api/generate"] = (503, b'{"error": "server busy, please try again"}')
    with pytest.raises(Overloaded, match="server busy"):
        await load(backend, model)
    fake.answers["/api/generate"] = (500, b"<html>")
    with pytest.raises(LoadFailed, match="it answered 500"):
        await load(backend, model)
    fake.answers.clear()
    fake.models.clear()
    with pytest.raises(ModelNotFound, match="no m:1"):
        await load(backend, model)


async def test_a_load_that_is_broken_off_leaves_nothing(fake: Any) -> None:
    fake.install("m:1")
    fake.load_gate = asyncio.Event()
    backend = Ollama(fake.url)
    model = await only(backend)
    with anyio.move_on_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load, backend, model)
            await fake.load_begun.wait()
            tasks.cancel_scope.cancel()
    assert [body["keep_alive"] for body in fake.bodies("POST /api/generate")] == [-1, 0]
    assert fake.loaded == {}


async def test_one_that_does_not_leave_is_told(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.install("m:1")
    backend = Ollama(fake.url)
    model = await only(backend)
    await load(backend, model)
    fake.unload_looks = 1_000_000
    monkeypatch.setattr(module, "UNLOAD_LIMIT_S", 0.05)
    monkeypatch.setattr(module, "UNLOAD_POLL_S", 0.001)
    with pytest.raises(Unavailable, match="still has m:1") as caught:
        await backend.unload(model)
    assert "ollama ps" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("vram", "taken"),
    [(0, {"host": 5120}), (5 * GIB, {"gpu": 5120}), (2 * GIB, {"host": 3072, "gpu": 2048})],
)
async def test_what_it_takes_is_ollamas_to_tell(
    fake: Any, vram: int, taken: dict[str, int]
) -> None:
    fake.install("m:1", vram=vram)
    backend = Ollama(fake.url)
    model = await only(backend)
    assert await backend.taken(model) is None
    await load(backend, model)
    assert await backend.taken(model) == taken


async def test_an_estimate_is_weights_and_cache(fake: Any) -> None:
    fake.install("m:1")
    backend = Ollama(fake.url)
    told = await backend.estimate(await only(backend), LoadPlan())
    assert told is not None
    # 32 layers, 8 heads of 128, keys and values at 16 bits, 8192 tokens (the Modelfile's num_ctx)
    assert (told.weights_mib, told.cache_mib) == (4096, 1024)


class Watch:
    """A `gone` that waits, and the clock it waits on."""

    def __init__(self, fake: Any) -> None:
        self.clock = FakeClock(fake.now)
        self.fake = fake
        self.backend = Ollama(fake.url, self.clock)

    async def begin(self) -> "asyncio.Future[Gone]":
        model = await only(self.backend)
        await load(self.backend, model)
        return asyncio.ensure_future(self.backend.gone(model))

    async def look(self, watching: "asyncio.Future[Gone]") -> None:
        """One look at Ollama, to its end."""
        await self.clock.until_sleeping()
        await self.clock.advance(WATCH_S)
        with anyio.fail_after(5):
            while not (self.clock.sleepers or watching.done()):  # noqa: ASYNC110 either ends it
                await asyncio.sleep(0)


async def test_a_model_that_ollama_dropped_is_noticed(fake: Any) -> None:
    fake.install("m:1")
    watch = Watch(fake)
    watching = await watch.begin()
    await watch.look(watching)
    assert not watching.done()
    fake.loaded.clear()
    await watch.look(watching)
    assert await watching == Gone("Ollama dropped m:1 from its memory", crashed=False)


async def test_an_ollama_that_ended_is_noticed(fake: Any) -> None:
    fake.install("m:1")
    watch = Watch(fake)
    watching = await watch.begin()
    await fake.stop()
    await watch.look(watching)
    gone = await watching
    assert "does not run" in gone.why
    assert gone.crashed


async def test_one_look_that_goes_wrong_loses_nothing(fake: Any) -> None:
    fake.install("m:1")
    watch = Watch(fake)
    watching = await watch.begin()
    fake.answers["/api/ps"] = (500, b"oops")
    await watch.look(watching)
    assert not watching.done()
    fake.answers.clear()
    fake.loaded.clear()
    await watch.look(watching)
    assert watching.done()


async def test_a_term_that_others_set_is_taken_back(fake: Any) -> None:
    fake.install("m:1")
    watch = Watch(fake)
    watching = await watch.begin()
    await watch.look(watching)
    assert len(fake.bodies("POST /api/generate")) == 1
    fake.loaded["m:1"] = fake.now + timedelta(minutes=5)  # after a reload by Ollama, say
    await watch.look(watching)
    assert len(fake.bodies("POST /api/generate")) == 2
    assert fake.loaded["m:1"].year == 2318
    watching.cancel()


async def test_a_pull_is_told_file_by_file(fake: Any) -> None:
    told: list[PullProgress] = []
    backend = Ollama(fake.url)
    model = await backend.pull("qwen", told.append)
    assert model.id == "ollama/qwen:latest"
    assert [(p.file, p.done, p.total) for p in told] == [
        ("6a0746a1ec1a", 0, 100),
        ("6a0746a1ec1a", 40, 100),
        ("6a0746a1ec1a", 100, 100),
    ]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([{"status": "x"}, {"error": "pull model manifest: file does not exist"}], "not exist"),
        ([{"status": "pulling manifest"}], "broke off"),
        ([{"digest": 3, "status": None, "completed": -1}], "broke off"),
    ],
)
async def test_a_pull_that_fails_says_why(fake: Any, lines: list[Any], why: str) -> None:
    fake.pull_lines = lines
    with pytest.raises(Unavailable, match=why) as caught:
        await Ollama(fake.url).pull("nope", lambda _: None)
    assert caught.value.hint
    with pytest.raises(BadRequest):
        await Ollama(fake.url).pull(" ", lambda _: None)


async def test_a_model_is_deleted(fake: Any) -> None:
    fake.install("m:1")
    backend = Ollama(fake.url)
    model = await only(backend)
    await backend.remove(model)
    assert await backend.list() == []
    with pytest.raises(Unavailable, match="not found"):
        await backend.remove(model)


async def test_one_that_is_down_says_how_to_start_it(fake: Any) -> None:
    fake.install("m:1")
    backend = Ollama(fake.url)
    model = await only(backend)
    assert (await backend.available()).detail == "Ollama 0.13.0"
    await fake.stop()
    with anyio.fail_after(2), pytest.raises(Unavailable, match="does not run") as caught:
        await backend.list()
    assert "ollama serve" in (caught.value.hint or "")
    state = await backend.available()
    assert not state.ok
    assert "ollama serve" in (state.hint or "")
    await backend.unload(model)  # what is down holds nothing


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html></html>"),
        (200, b"[]"),
        (200, b"\xff"),
        (200, b"[" * 100_000),
        (302, b""),
        (404, b"404 page not found"),
        (401, b'{"error": {"message": "no"}}'),
    ],
)
async def test_what_is_no_ollama_is_told_with_a_hint(fake: Any, status: int, body: bytes) -> None:
    fake.answers["/api/tags"] = (status, body)
    with pytest.raises(Unavailable) as caught:
        await Ollama(fake.url).list()
    assert "base_url" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "rows",
    [
        None,
        "no",
        [None, 3, {}, {"name": ""}, {"model": "a\nb"}, {"model": "x" * 300}],
        [{"model": "m:1", "size": -1, "digest": 3, "details": "no", "capabilities": "all"}],
        [{"model": "m:1", "size": True, "details": {"format": 3}, "capabilities": []}] * 2,
    ],
)
async def test_odd_rows_cost_no_more_than_themselves(fake: Any, rows: Any) -> None:
    import json

    fake.answers["/api/tags"] = (200, json.dumps({"models": rows}).encode())
    fake.answers["/api/ps"] = (200, json.dumps({"models": rows}).encode())
    for model in await Ollama(fake.url).list():
        assert (model.name, model.size_mib, model.detail) == ("m:1", None, None)
        assert model.capabilities == {"chat", "completion"}


async def test_another_machines_memory_is_not_ours(fake: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "is_local", lambda _: False)
    fake.install("m:1")
    backend = Ollama(fake.url)
    model = await only(backend)
    place = await load(backend, model)
    assert (model.local, place.local) == (False, False)
    assert await backend.estimate(model, LoadPlan()) is None
    assert await backend.taken(model) is None


async def test_a_proxy_of_the_environment_is_not_asked(fake: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    fake.install("m:1")
    assert (await only(Ollama(fake.url))).name == "m:1"
