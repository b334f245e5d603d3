"""The relay on real sockets: what an engine says, what a client gets, what is recorded."""

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import chat_answer, chat_chunks
from tests.conftest import StartBox, endpoint

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


async def test_the_record_is_on_disk_after_the_stop(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream)) as box:
        await box.http.post("/v1/chat/completions", json=ASK)
    await anyio.lowlevel.checkpoint()
    lines = (box.folders.usage / "usage.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["model"] == "up/m"
