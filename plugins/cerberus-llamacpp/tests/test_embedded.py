"""The embedded engine with the starter model: everything here is real."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from blockbuster import blockbuster_ctx
from cerberus_llamacpp.backend import LlamaCpp
from cerberus_llamacpp.testing import Setup, copy_gguf, write_gguf

from cerberus_core.errors import LoadFailed, ModelNotFound
from cerberus_core.platform.memory import taken_by
from cerberus_core.values import Endpoint, LoadPlan, LoadProgress, ModelInfo

pytestmark = pytest.mark.anyio

Make = Callable[..., LlamaCpp]


@pytest.fixture
def smol(setup: Setup, starter_model: Path) -> Path:
    path = setup.models_dir / "模型 ü" / "-it's smol.gguf"
    path.parent.mkdir()
    os.link(starter_model, path) if same_disk(starter_model, path) else shutil.copy(
        starter_model, path
    )
    return path


def same_disk(one: Path, two: Path) -> bool:
    return one.stat().st_dev == two.parent.stat().st_dev


async def listed(backend: LlamaCpp) -> ModelInfo:
    [model] = await backend.list()
    return model


async def load(backend: LlamaCpp, model: ModelInfo, **plan: Any) -> Endpoint:
    async with asyncio.timeout(60):
        return await backend.load(model, LoadPlan(**plan), lambda progress: None)


async def ask(endpoint: Endpoint, path: str, body: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        return await client.post(
            f"{endpoint.base_url}{path}",
            json={"model": endpoint.model, **body},
            headers=endpoint.headers,
        )


async def get(url: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        return await client.get(url, headers=headers)


def offspring() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


async def test_m12_a_real_model_with_a_hard_name_answers(
    make_backend: Make, smol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "临时 ü tmp"
    await asyncio.to_thread(temporary.mkdir)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    backend = make_backend()
    model = await listed(backend)
    assert model.id == "llamacpp/-it's smol"
    assert model.ctx == 8192
    assert model.detail == "135M · Q4_1 · llama"
    endpoint = await load(backend, model, context=300, parallel=2)
    assert endpoint.ctx is not None
    assert 300 <= endpoint.ctx < 600
    message = {"role": "user", "content": "Say hello."}
    answer = await ask(endpoint, "/chat/completions", {"messages": [message], "max_tokens": 8})
    assert answer.json()["model"] == model.id
    assert answer.json()["usage"]["completion_tokens"] > 0
    assert await load(backend, model) == endpoint
    assert len(offspring()) == 2  # the guard and its engine
    await backend.unload(model)
    await backend.unload(model)
    assert offspring() == []


async def test_the_engine_is_closed_to_everybody_else(make_backend: Make, smol: Path) -> None:
    backend = make_backend()
    endpoint = await load(backend, await listed(backend))
    root = endpoint.base_url.removesuffix("/v1")
    key = endpoint.headers["Authorization"]
    for path in ("/props", "/slots", "/metrics", "/v1/models"):
        assert (await get(root + path)).status_code == 401
        foreign = await get(root + path, Authorization=key, Origin="http://evil.example")
        assert foreign.status_code == 200
        assert foreign.headers.get("access-control-allow-origin", "") == ""
    secret = key.removeprefix("Bearer ")
    assert secret not in repr(endpoint)
    for process in offspring():
        assert secret not in " ".join(process.cmdline())
        for connection in process.net_connections():
            assert connection.laddr.ip == "127.0.0.1"


async def test_a_client_that_leaves_frees_its_slot(make_backend: Make, smol: Path) -> None:
    backend = make_backend()
    endpoint = await load(backend, await listed(backend), context=4096)
    body = {"prompt": "Once", "max_tokens": 4000, "stream": True, "ignore_eos": True}
    url = f"{endpoint.base_url}/completions"
    async with (
        httpx.AsyncClient(timeout=60, trust_env=False) as client,
        client.stream("POST", url, json=body, headers=endpoint.headers) as stream,
    ):
        async for _ in stream.aiter_bytes():
            break
    slots = endpoint.base_url.removesuffix("/v1") + "/slots"
    for _ in range(200):
        if not (await get(slots, **endpoint.headers)).json()[0]["is_processing"]:
            return
        await asyncio.sleep(0.05)
    pytest.fail("the engine goes on generating")


async def test_m06_a_broken_model_fails_at_once_with_the_engines_last_words(
    make_backend: Make, setup: Setup
) -> None:
    # Whole and well formed, but for everything that makes a model.
    write_gguf(setup.models_dir / "hollow.gguf")
    backend = make_backend(stall_s=900)
    began = time.monotonic()
    with pytest.raises(LoadFailed, match="exit code 1") as caught:
        await load(backend, await listed(backend))
    assert time.monotonic() - began < 20
    assert "failed to load model" in str(caught.value)
    assert offspring() == []


async def test_a_model_with_a_problem_is_refused_with_it(make_backend: Make, setup: Setup) -> None:
    path = write_gguf(setup.models_dir / "cut.gguf", cut=100)
    backend = make_backend()
    model = await listed(backend)
    with pytest.raises(LoadFailed, match="incomplete"):
        await load(backend, model)
    path.unlink()
    with pytest.raises(ModelNotFound, match="its file is gone"):
        await load(backend, model)


async def test_a_killed_engine_is_gone_with_a_reason_and_loads_again(
    make_backend: Make, smol: Path
) -> None:
    backend = make_backend()
    model = await listed(backend)
    await load(backend, model)
    gone = asyncio.create_task(backend.gone(model))
    engine = next(process for process in offspring() if "-m" in process.cmdline())
    engine.send_signal(signal.SIGKILL)
    async with asyncio.timeout(10):
        assert "signal 9 (SIGKILL)" in (await gone).why
    assert offspring() == []
    await load(backend, model)
    assert len(offspring()) == 2


async def test_a_cancelled_load_leaves_nothing_running(make_backend: Make, smol: Path) -> None:
    backend = make_backend()
    model = await listed(backend)
    for wait_s in (0.0, 0.05, 0.3, 0.6):
        task = asyncio.create_task(load(backend, model))
        await asyncio.wait([task], timeout=wait_s)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert offspring() == []
    await load(backend, model)


async def test_a_load_reports_signs_of_life(make_backend: Make, smol: Path) -> None:
    backend = make_backend()
    seen: list[LoadProgress] = []
    await backend.load(await listed(backend), LoadPlan(), seen.append)
    assert seen


async def test_an_embedding_model_embeds(
    make_backend: Make, setup: Setup, starter_model: Path
) -> None:
    target = setup.models_dir / "embed.gguf"
    copy_gguf(starter_model, target, {"llama.pooling_type": 1})
    backend = make_backend()
    model = await listed(backend)
    assert model.capabilities == {"embed"}
    endpoint = await load(backend, model)
    answer = await ask(endpoint, "/embeddings", {"input": ["a dog", "a cat"]})
    assert [len(row["embedding"]) for row in answer.json()["data"]] == [576, 576]


async def test_closing_stops_every_engine(make_backend: Make, smol: Path) -> None:
    second = smol.with_name("second.gguf")
    shutil.copy(smol, second)
    backend = make_backend()
    for model in await backend.list():
        await load(backend, model)
    assert len(offspring()) == 4
    await backend.aclose()
    assert offspring() == []


async def test_no_call_blocks_the_loop(make_backend: Make, smol: Path) -> None:
    backend = make_backend()
    with blockbuster_ctx():
        model = await listed(backend)
        await load(backend, model)
        gone = asyncio.create_task(backend.gone(model))
        await asyncio.sleep(0)
        await backend.unload(model)
        assert "SIGTERM" in (await gone).why
        assert (await backend.available()).ok
        await backend.remove(model)
        assert await backend.list() == []


async def taken(backend: LlamaCpp, model: ModelInfo) -> int:
    mib = await asyncio.to_thread(taken_by, backend.processes(model))
    assert mib is not None
    return mib


async def test_a_cache_of_fewer_bits_takes_less_memory_and_the_estimate_knows(
    make_backend: Make, smol: Path
) -> None:
    backend = make_backend()
    model = await listed(backend)
    found = []
    for kind in (None, "q8_0"):
        plan = {"context": 8192, "parallel": 2, "cache_type_k": kind, "cache_type_v": kind}
        told = await backend.estimate(model, LoadPlan(**plan))
        assert told is not None
        await load(backend, model, **plan)
        found.append((await taken(backend, model), told.cache_mib))
        await backend.unload(model)
    (whole, told_whole), (small, told_small) = found
    assert (told_whole, told_small) == (360, 192)
    assert whole - small == pytest.approx(told_whole - told_small, rel=0.25)


async def test_a_small_model_guesses_ahead(
    make_backend: Make, smol: Path, setup: Setup, starter_model: Path
) -> None:
    await asyncio.to_thread(copy_gguf, starter_model, setup.models_dir / "draft.gguf", {})
    backend = make_backend()
    model = next(one for one in await backend.list() if one.name != "draft")
    endpoint = await load(backend, model, draft="draft", draft_tokens=3)
    body = {"messages": [{"role": "user", "content": "Count."}], "max_tokens": 12}
    answer = await ask(endpoint, "/chat/completions", body | {"temperature": 0})
    timings = answer.json()["timings"]
    assert timings["draft_n"] > 0
    assert timings["draft_n_accepted"] > 0


async def test_what_the_embedded_engine_does_not_take_is_told(
    make_backend: Make, smol: Path
) -> None:
    backend = make_backend(extra_args=["--no-mmap"])
    state = await backend.available()
    assert state.warnings == (
        "plugins.llamacpp.extra_args: the embedded engine takes none; a `llama-server` does",
    )
    plan = LoadPlan(extra_args=("--no-mmap",), devices=("CUDA0",), cache_type_k="q8_0")
    assert backend.ignores(plan).keys() == {"extra_args", "devices"}
    model = await listed(backend)
    endpoint = await load(backend, model, tensor_split=(3, 1), main_gpu=0, gpu_layers=0)
    assert endpoint.ctx == 512, "what it takes it is given, cards or not"
