"""What a client sees of a load that takes its time, or fails (M05, M06)."""

import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from cerberus_llamacpp.testing import write_gguf

from tests.conftest import StartBox
from tests.stand_ins import stand_in

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def config(folder: Path, script: str, more: str = "", *, stall_s: float = 1.0) -> str:
    """A model whose engine is this shell script: no llama-server stands behind it."""
    write_gguf(folder / "gguf" / "tiny.gguf")
    engine = folder / "engine"
    engine.write_text(f"#!/bin/sh\n{script}\n")
    engine.chmod(0o755)
    return (
        f'{more}\n[plugins.llamacpp]\nengine = "binary"\nbinary = {json.dumps(str(engine))}\n'
        f"folders = {json.dumps([str(folder / 'gguf')])}\nstall_s = {stall_s}\n"
    )


@pytest.mark.parametrize("stream", [True, False])
async def test_m06_an_engine_that_dies_at_start_is_a_real_503_with_its_last_words(
    start_box: StartBox, tmp_path: Path, stream: bool
) -> None:
    dies = f"""test "$1" = --help && exit
        echo started >> '{tmp_path}/starts'; echo unknown argument: --wings >&2; exit 3"""
    # Whoever waited for its silence would outlast the client's patience.
    async with start_box(config(tmp_path, dies, stall_s=600)) as box:
        answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": stream})
        record = await box.record()
        models = (await box.http.get("/api/models")).json()["models"]
        [model] = [model for model in models if model["name"] == "tiny"]
        starts = len((tmp_path / "starts").read_text().splitlines())
    assert answer.status_code == 503
    assert (model["state"], starts) == ("failed", 1)
    assert "unknown argument: --wings" in model["failure"]
    error = answer.json()["error"]
    assert error["code"] == "load_failed"
    assert "unknown argument: --wings" in error["message"]
    assert (record.status, record.model) == (503, "tiny")


async def test_after_the_hold_a_stream_gets_comments_and_then_a_typed_error(
    start_box: StartBox, tmp_path: Path
) -> None:
    slow = "echo reading weights >&2; sleep 0.5; echo out of memory >&2; exit 1"
    gateway = "[gateway]\nhold_s = 0\nkeepalive_s = 0.1"
    async with start_box(config(tmp_path, slow, gateway)) as box:
        answer = await box.http.post("/v1/chat/completions", json={**ASK, "stream": True})
        record = await box.record()
    assert answer.status_code == 200
    *comments, last = [block for block in answer.text.split("\n\n") if block]
    assert len(comments) >= 2
    assert set(comments) == {": loading"}
    error = json.loads(last.removeprefix("data: "))["error"]
    assert error["code"] == "load_failed"
    assert "out of memory" in error["message"]
    assert "[DONE]" not in answer.text
    assert record.error is not None


@pytest.mark.parametrize("stream", [True, False])
async def test_m05_a_silent_engine_is_stopped_by_name_and_the_next_request_is_answered(
    start_box: StartBox, tmp_path: Path, stream: bool
) -> None:
    ask = {**ASK, "stream": stream}
    behaves = tmp_path / "behaves.json"
    behaves.write_text("[{}]")
    server = stand_in("llamacpp", "fake_llama_server").__file__
    works = f"FAKE_LLAMA='{behaves}' exec '{sys.executable}' '{server}' \"$@\""
    silent = 'test "$1" = --help && exit; exec sleep 600'
    async with start_box(config(tmp_path, silent)) as box:
        answer = await box.http.post("/v1/chat/completions", json=ask)
        assert answer.status_code == 503
        assert "1 s (plugins.llamacpp.stall_s)" in answer.json()["error"]["message"]
        assert psutil.Process().children(recursive=True) == []
        (tmp_path / "engine").write_text(f"#!/bin/sh\n{works}\n")
        again = await box.http.post("/v1/chat/completions", json=ask)
        assert again.status_code == 200
        assert '"stop"' in again.text
        starts = (tmp_path / "calls.jsonl").read_text().splitlines()
        assert len([start for start in starts if "--model" in start]) == 1
