"""Requests, live and finished, and what they add up to."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from cerberus_core.platform import Folders
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_chunks
from cerberus_core.usage.lines import encode
from cerberus_core.values import Record
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}


async def test_a_running_request_is_live_and_then_recent(
    box: Box, upstream: ScriptedServer
) -> None:
    wait = Wait()
    first, *rest = chat_chunks(["Hel", "lo"])
    upstream.reply = Reply.stream([first, wait, *rest])
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            headers = {"user-agent": "a-test/1"}
            body = {**ASK, "stream": True}
            await box.http.post("/v1/chat/completions", json=body, headers=headers)

        tasks.start_soon(ask)
        with anyio.fail_after(10):
            await wait.reached.wait()
            while True:
                seen = (await box.http.get("/api/requests")).json()
                if seen["live"] and seen["live"][0]["phase"] == "decode":
                    break
                await anyio.sleep(0.01)
        [live] = seen["live"]
        assert (live["model"], live["client"], live["stream"]) == ("up/m", "a-test/1", True)
        assert live["pieces"] == 1
        assert seen["recent"] == []
        status = (await box.http.get("/api/status")).json()
        assert status["requests_in_flight"] == 1
        wait.go()
    record = await box.record()
    assert (record.id, record.status, record.client) == (live["id"], 200, "a-test/1")
    one = await box.http.get(f"/api/requests/{live['id']}")
    assert one.json()["completion_tokens"] == 2


async def test_the_limit_holds_and_the_newest_come_first(box: Box) -> None:
    for word in ("one", "two", "three"):
        await box.http.post(
            "/v1/chat/completions", json={**ASK, "messages": [{"role": "user", "content": word}]}
        )
    times = [record.time for record in await box.records(3)]
    assert times == sorted(times, reverse=True)
    two = (await box.http.get("/api/requests", params={"limit": 2})).json()["recent"]
    assert len(two) == 2


async def test_no_prompt_and_no_answer_is_kept_anywhere(box: Box) -> None:
    body = {**ASK, "messages": [{"role": "user", "content": "my-secret-prompt"}]}
    await box.http.post("/v1/chat/completions", json=body)
    await box.record()
    for path in ("/api/requests", "/api/usage"):
        assert "my-secret-prompt" not in (await box.http.get(path)).text


async def test_usage_sums_up_since_a_moment(start_box: StartBox, upstream: ScriptedServer) -> None:
    now = datetime.now(UTC)

    def record(n: int, **age: int) -> Record:
        return Record(id=f"r{n}", time=now - timedelta(**age), model="old/m", status=200)

    rows = encode([record(0, days=60), record(1, days=3), record(2, hours=2)])
    config = endpoint(upstream)
    async with start_box(config, prepare=_usage(rows)) as box:
        await box.http.post("/v1/chat/completions", json=ASK)
        await box.record()

        async def counts(**since: int) -> dict[str, int]:
            start = (now - timedelta(**since)).isoformat()
            answer = await box.http.get("/api/usage", params={"since": start})
            return {row["model"]: row["requests"] for row in answer.json()["models"]}

        assert await counts(days=90) == {"old/m": 3, "up/m": 1}
        assert await counts(days=7) == {"old/m": 2, "up/m": 1}
        assert await counts(minutes=30) == {"up/m": 1}
        default = (await box.http.get("/api/usage")).json()
        assert {row["model"]: row["requests"] for row in default["models"]} == await counts(days=30)
        assert abs(datetime.fromisoformat(default["since"]) - now + timedelta(days=30)) < (
            timedelta(minutes=5)
        )
        naive = await box.http.get("/api/usage", params={"since": "2000-01-01T00:00:00"})
        assert {row["model"] for row in naive.json()["models"]} == {"old/m", "up/m"}
        up = next(row for row in naive.json()["models"] if row["model"] == "up/m")
        assert (up["prompt_tokens"], up["completion_tokens"], up["energy_j"]) == (5, 2, None)
    on_disk = (box.folders.usage / "usage.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["model"] for line in on_disk] == ["old/m"] * 3 + ["up/m"]


def _usage(rows: bytes) -> Any:
    def prepare(folders: Folders) -> None:
        folders.usage.mkdir(parents=True)
        (folders.usage / "usage.jsonl").write_bytes(rows)

    return prepare
