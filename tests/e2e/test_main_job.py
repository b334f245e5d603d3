"""The main job on the real engine: load once, stream, meter, survive, leave nothing behind."""

import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import openai
import pytest
from cerberus_llamacpp.testing import copy_gguf

from tests.conftest import Box, StartBox
from tests.e2e.conftest import (
    MODEL,
    DaemonProcess,
    EngineAddress,
    engines,
    gone_within,
    start_daemon,
    stop_daemon,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


@asynccontextmanager
async def slots_of(endpoint: EngineAddress) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """Asks the engine itself whether any of its slots is at work."""
    async with httpx.AsyncClient(headers=endpoint.headers) as engine:

        async def busy() -> bool:
            slots = (await engine.get(f"{endpoint.url}/slots")).json()
            return any(slot["is_processing"] for slot in slots)

        yield busy


ASK: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Count from one to fifty, in words."}],
    "max_tokens": 12,
}
# It can't come to its end by itself before the test has done what it is about.
LONG = {**ASK, "max_tokens": 900, "stream": True, "ignore_eos": True}


async def test_the_openai_package_streams_text_usage_and_speed(
    start_box: StartBox, engine_config: str
) -> None:
    async with start_box(engine_config) as box:
        client = openai.AsyncOpenAI(base_url=f"{box.url}/v1", api_key=box.token)
        assert MODEL in [model.id async for model in await client.models.list()]
        text, usage = "", None
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "Say hello."}],
            max_tokens=12,
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            assert chunk.model == MODEL
            if chunk.choices:
                text += chunk.choices[0].delta.content or ""
            if chunk.usage is not None:
                usage = chunk.usage
        whole = await client.chat.completions.create(
            model="smol", messages=[{"role": "user", "content": "Say hello."}], max_tokens=8
        )
        completion = await client.completions.create(model=MODEL, prompt="One two", max_tokens=4)
        await client.close()
        records = await box.records(3)
    assert text
    assert usage is not None
    own = (usage.model_extra or {})["cerberus"]
    assert own["tok_per_sec"] > 0
    assert own["load_ms"] > 0
    assert whole.choices[0].message.content
    assert completion.choices[0].text
    assert [r.path for r in records] == [
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/chat/completions",
    ]
    for record in records:
        assert (record.status, record.error, record.energy_j) == (200, None, None)
        assert record.completion_tokens
        assert record.tok_per_sec
    on_disk = [json.loads(x) for x in (box.folders.usage / "usage.jsonl").read_text().splitlines()]
    assert {row["id"] for row in on_disk} == {record.id for record in records}


async def test_m01_twenty_first_requests_start_one_engine(
    start_box: StartBox, engine_config: str
) -> None:
    statuses: list[int] = []

    async def ask(box: Box) -> None:
        answer = await box.http.post("/v1/chat/completions", json={**ASK, "max_tokens": 2})
        statuses.append(answer.status_code)

    async with start_box(engine_config) as box:
        box.http.timeout = httpx.Timeout(120)
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask, box)
        running = engines(os.getpid())
        assert statuses == [200] * 20
        assert len(running) == 1
        models = (await box.http.get("/api/models")).json()["models"]
        assert [(m["state"], m["in_flight"]) for m in models] == [("ready", 0)]
    assert gone_within(running, 5)


async def test_a_killed_engine_is_a_clear_error_and_the_next_request_reloads(
    start_box: StartBox, engine_config: str
) -> None:
    async with start_box(engine_config) as box:
        await box.http.post("/v1/chat/completions", json={**ASK, "max_tokens": 1})
        running = engines(os.getpid())
        events: list[Any] = []
        async with box.http.stream("POST", "/v1/chat/completions", json=LONG) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    events.append(json.loads(line[6:]))
                    if len(events) == 5:
                        for process in running:
                            process.send_signal(signal.SIGKILL)
        assert "[DONE]" not in str(events)
        error = events[-1]["error"]
        assert error["code"] == "engine_lost"
        assert "SIGKILL" in error["message"]
        record = await box.record()
        assert record.error is not None
        assert record.completion_tokens
        again = await box.http.post("/v1/chat/completions", json=ASK)
        assert again.status_code == 200


async def test_a_whole_answer_put_together_is_the_one_the_engine_gives(
    start_box: StartBox, engine_config: str
) -> None:
    asked = [
        {**ASK, "temperature": 0, "seed": 7, "max_tokens": 16, "logprobs": True},
        {**ASK, "temperature": 0, "seed": 7, "max_tokens": 200, "stop": ["three"]},
    ]
    async with start_box(engine_config) as box:
        await box.http.post("/v1/chat/completions", json=asked[0])
        endpoint = EngineAddress(os.getpid())
        async with httpx.AsyncClient(headers=endpoint.headers, timeout=60) as engine:
            for body in asked:
                direct = (
                    await engine.post(f"{endpoint.url}/v1/chat/completions", json=body)
                ).json()
                ours = (await box.http.post("/v1/chat/completions", json=body)).json()
                assert ours["choices"] == direct["choices"]
                for key in ("object", "model", "system_fingerprint"):
                    assert ours[key] == direct[key], key
                for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
                    assert ours["usage"][key] == direct["usage"][key], key
                assert set(direct) <= set(ours)
                assert ours["usage"]["cerberus"]["ttft_ms"] is not None


async def test_embeddings_come_from_an_embedding_model_and_from_no_other(
    start_box: StartBox, engine_config: str, starter_model: Path, models_folder: Path
) -> None:
    copy_gguf(starter_model, models_folder / "embed.gguf", {"llama.pooling_type": 1})
    async with start_box(engine_config) as box:
        client = openai.AsyncOpenAI(base_url=f"{box.url}/v1", api_key=box.token)
        answer = await client.embeddings.create(model="llamacpp/embed", input=["one", "two"])
        assert [len(row.embedding) for row in answer.data] == [576, 576]
        assert answer.model == "llamacpp/embed"
        record = await box.record()
        assert (record.path, record.status) == ("/v1/embeddings", 200)
        assert record.prompt_tokens
        assert record.completion_tokens is None
        with pytest.raises(openai.BadRequestError) as caught:
            await client.embeddings.create(model=MODEL, input="one")
        assert "makes no embeddings" in str(caught.value)
        await client.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_the_client_leaves_and_the_engine_stops_within_a_second(
    start_box: StartBox, engine_config: str, stream: bool
) -> None:
    async with start_box(engine_config) as box:
        await box.http.post("/v1/chat/completions", json={**ASK, "max_tokens": 1})
        async with slots_of(EngineAddress(os.getpid())) as busy:
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    body = {**LONG, "stream": stream}
                    await box.http.post("/v1/chat/completions", json=body)

                tasks.start_soon(ask)
                with anyio.fail_after(30):
                    while not await busy():
                        await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
            left = time.monotonic()
            with anyio.fail_after(5):
                while await busy():
                    await anyio.sleep(0.01)
            assert time.monotonic() - left < 1.0
        assert (await box.record()).status == 499


async def test_g16_a_client_that_leaves_the_engines_queue_is_not_run(
    start_box: StartBox, engine_config: str
) -> None:
    async with start_box(engine_config.replace("parallel = 2", "parallel = 1")) as box:
        await box.http.post("/v1/chat/completions", json={**ASK, "max_tokens": 1})

        async def ask() -> None:
            await box.http.post("/v1/chat/completions", json=LONG)

        async def running(count: int) -> None:
            while len((await box.http.get("/api/requests")).json()["live"]) != count:
                await anyio.sleep(0.01)

        async with slots_of(EngineAddress(os.getpid())) as busy, anyio.create_task_group() as tasks:
            with anyio.fail_after(30):
                first, second = anyio.CancelScope(), anyio.CancelScope()
                for scope, count in ((first, 1), (second, 2)):
                    tasks.start_soon(_within, scope, ask)
                    await running(count)
                    while not await busy():
                        await anyio.sleep(0.01)
                second.cancel()
                await running(1)
                first.cancel()
                await running(0)
                while await busy():
                    await anyio.sleep(0.01)
            for _ in range(20):
                assert not await busy(), "the engine runs a request whose client has left"
                await anyio.sleep(0.02)
        ran, waited = (await box.records(3))[:2]
        assert ran.completion_tokens
        assert waited.completion_tokens is None
        assert waited.status == 499


async def _within(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await work()


def test_kill_9_of_the_daemon_leaves_no_engine_and_the_next_start_is_clean(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    answer = httpx.post(
        f"{daemon.url}/v1/chat/completions", json=ASK, headers=daemon.headers, timeout=120
    )
    assert answer.status_code == 200
    children = daemon.descendants()
    assert any("cerberus_llamacpp.engine" in " ".join(c.cmdline()) for c in children)
    with httpx.stream(
        "POST", f"{daemon.url}/v1/chat/completions", json=LONG, headers=daemon.headers, timeout=60
    ) as stream:
        next(stream.iter_lines())
        daemon.process.kill()
        daemon.process.wait()
        assert gone_within(children, 5)
    again = start_daemon(tmp_path, "")
    try:
        answer = httpx.post(
            f"{again.url}/v1/chat/completions", json=ASK, headers=again.headers, timeout=120
        )
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] > 0
    finally:
        stop_daemon(again)


def test_sigterm_stops_everything_and_writes_the_last_record(daemon: DaemonProcess) -> None:
    httpx.post(f"{daemon.url}/v1/chat/completions", json=ASK, headers=daemon.headers, timeout=120)
    children = daemon.descendants()
    daemon.process.terminate()
    assert daemon.process.wait(30) == 0
    assert gone_within(children, 5)
    assert not daemon.folders.daemon_file.exists()
    lines = (daemon.folders.usage / "usage.jsonl").read_text().splitlines()
    assert len(lines) == 1
