"""A stop while answers run: told to the person, the client and the record; no traceback."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest

from cerberus_core.platform import FileLock
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chunk, sse
from tests.conftest import endpoint
from tests.processes import clean_env, install_plugin, start_daemon, stop_daemon

pytestmark = pytest.mark.anyio


async def test_a_second_ctrl_c_cuts_a_running_answer_off_in_words(
    tmp_path: Path, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.stream([sse(chunk({"content": "once"})), Wait()])
    running = await anyio.to_thread.run_sync(start_daemon, tmp_path, endpoint(upstream))
    try:
        body = {"model": "up/m", "messages": [{}], "stream": True}
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


HANGING = """
    import sys, time
    from cerberus_core import hookimpl

    @hookimpl
    def cerberus_model_backends(setup):
        print("the hook has begun", file=sys.stderr, flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_a_plugin_hangs_in_its_hook_ends_the_start_at_once(
    tmp_path: Path, number: int
) -> None:
    env = {**clean_env(tmp_path), **install_plugin(tmp_path, "hanging", HANGING)}
    command = [sys.executable, "-m", "cerberus_core", "serve", "--port", "0"]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "the hook has begun\n"
        process.send_signal(number)
        try:
            assert process.wait(5) == 0
        finally:
            process.kill()
        assert process.stderr.read() == "Stopping\n"
    data = tmp_path / "data"
    assert not (data / "daemon.json").exists()
    with FileLock(data / "daemon.lock"):
        pass


async def _said(folder: Path, words: str) -> None:
    with anyio.fail_after(20):
        while words not in (folder / "serve.err").read_text():
            await anyio.sleep(0.02)
