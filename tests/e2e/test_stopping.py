"""A stop while answers run: told to the person, the client and the record; no traceback."""

import json
import signal
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest

from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chunk, sse
from tests.conftest import endpoint
from tests.processes import start_daemon, stop_daemon

pytestmark = pytest.mark.anyio


async def test_a_second_ctrl_c_cuts_a_running_answer_off_in_words(
    tmp_path: Path, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.stream([sse(chunk({"content": "once"})), Wait()])
    running = await anyio.to_thread.run_sync(start_daemon, tmp_path, endpoint(upstream))
    try:
        body = {"model": "up/m", "messages": [], "stream": True}
        url = f"{running.url}/v1/chat/completions"
        async with (
            httpx.AsyncClient(headers=running.headers, timeout=60) as http,
            http.stream("POST", url, json=body) as answer,
        ):
            lines = answer.aiter_lines()
            assert "once" in await anext(lines)
            running.process.send_signal(signal.SIGINT)
            await _said(tmp_path, "1 still answering")
            running.process.send_signal(signal.SIGINT)
            rest = [line async for line in lines if line.startswith("data: ")]
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(running.process.wait)
    finally:
        await anyio.to_thread.run_sync(stop_daemon, running)
    assert json.loads(rest[-1][6:])["error"]["code"] == "stopping"
    assert "[DONE]" not in "".join(rest)
    assert "Traceback" not in (tmp_path / "serve.err").read_text()
    records = (running.folders.usage / "usage.jsonl").read_text().splitlines()
    assert json.loads(records[0])["error"] == "Cerberus is stopping"


async def _said(folder: Path, words: str) -> None:
    with anyio.fail_after(20):
        while words not in (folder / "serve.err").read_text():
            await anyio.sleep(0.02)
