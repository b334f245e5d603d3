"""The relay on real sockets: what an engine says, what a client gets, what is recorded."""

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cerberus_core.testing import FakeClock, Reply, ScriptedServer
from cerberus_core.testing.scripted import DONE, Wait, chat_answer, chat_chunks, chunk, sse
from tests.conftest import StartBox, endpoint
from tests.gateway.odd_http import raw_request

pytestmark = pytest.mark.anyio

ASK = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}


async def test_a_whole_answer_passes_with_public_name_and_figures(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.json(chat_answer("hello"))
    async with start_box(endpoint(upstream)) as box:
        answer = await box.http.post("/v1/chat/completions", json=ASK)
        record = await box.record()
    body = answer.json()
    assert answer.status_code == 200
    assert body["choices"][0]["message"]["content"] == "hello"
    assert body["model"] == "up/m"
    assert body["usage"]["cerberus"]["request_id"] == record.id == answer.headers["x-request-id"]
    assert upstream.requests[0].json()["model"] == "m"
    assert (record.prompt_tokens, record.completion_tokens) == (5, 2)
    assert (record.model, record.backend, record.status, record.error) == (
        "up/m",
        "up",
        200,
        None,
    )
    assert record.energy_j is None


async def test_a_stream_passes_and_usage_stays_hidden_unless_asked_for(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.stream(chat_chunks(["Hel", "lo"]))
    async with start_box(endpoint(upstream)) as box:
        answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": True})
        record = await box.record()
    events = [line[6:] for line in answer.text.split("\n") if line]
    assert events[-1] == "[DONE]"
    chunks: list[dict[str, Any]] = [json.loads(event) for event in events[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "Hello"
    assert not any("usage" in c for c in chunks)
    assert upstream.requests[0].json()["stream_options"] == {"include_usage": True}
    assert record.completion_tokens == 2
    assert record.ttft_ms is not None


@pytest.mark.parametrize(
    ("more", "speed"),
    [
        ({}, 16.0),  # four tokens after the first, in a quarter of a second
        ({"timings": {"predicted_n": 5, "predicted_per_second": 44.444}}, 44.44),
    ],
    ids=["measured", "told by the engine"],
)
async def test_the_figures_are_exact(
    start_box: StartBox, upstream: ScriptedServer, more: dict[str, Any], speed: float
) -> None:
    clock = FakeClock()
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    first, second, last = Wait(), Wait(), Wait()
    events = [sse(chunk({"content": text})) for text in "ab"]
    end = [sse(chunk(finish="stop")), sse({**chunk(), "choices": [], "usage": usage, **more}), DONE]
    upstream.reply = Reply.stream([first, events[0], second, events[1], last, *end])
    ask = {**ASK, "stream": True, "stream_options": {"include_usage": True}}
    async with start_box(endpoint(upstream), clock=clock) as box:
        reader, writer = await raw_request(box, json.dumps(ask).encode())
        with anyio.fail_after(10):
            await first.reached.wait()
            await clock.advance(0.5)
            first.go()
            await reader.readuntil(b'"a"')
            await clock.advance(0.25)
            second.go()
            await reader.readuntil(b'"b"')
            await clock.advance(0.125)
            last.go()
            tail = (await reader.readuntil(b"data: [DONE]")).decode()
        writer.close()
        record = await box.record()
    line = next(line for line in tail.splitlines() if '"cerberus"' in line)
    assert json.loads(line.removeprefix("data: "))["usage"]["cerberus"] == {
        "request_id": record.id,
        "queue_ms": None,
        "load_ms": None,
        "evicted": [],
        "tried": [],
        "prefill_tok_per_sec": None,
        "ttft_ms": 500,
        "duration_ms": 875,
        "tok_per_sec": speed,
        "energy_j": None,
        "energy_gpu_j": None,
        "energy_cpu_j": None,
        "energy": None,
        "tok_per_j": None,
    }
    assert (record.ttft_ms, record.duration_ms, record.tok_per_sec) == (500, 875, speed)
    assert (record.load_ms, record.energy_j, record.tok_per_j) == (None, None, None)


async def test_the_record_is_on_disk_after_the_stop(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream)) as box:
        await box.http.post("/v1/chat/completions", json=ASK)
    await anyio.lowlevel.checkpoint()
    lines = (box.folders.usage / "usage.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["model"] == "up/m"
