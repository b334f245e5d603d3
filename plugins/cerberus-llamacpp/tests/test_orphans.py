"""A daemon that is killed leaves no engine, of either kind, at any moment (M07, M08)."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from cerberus_llamacpp.testing import Setup, write_gguf

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

DAEMON = """
import asyncio, json, sys
from pathlib import Path
from cerberus_core.values import LoadPlan
from cerberus_llamacpp.backend import LlamaCpp
from cerberus_llamacpp.settings import Settings
from cerberus_llamacpp.testing import Setup

async def main():
    backend = LlamaCpp(Setup(Path(sys.argv[1])), Settings(**json.loads(sys.argv[2])))
    [model] = await backend.list()
    await backend.load(model, LoadPlan(), lambda progress: None)
    print("loaded", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def until(fact: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not fact():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def daemon(setup: Setup, **settings: object) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", DAEMON, str(setup.root), json.dumps({"threads": 1, **settings})]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def tree(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def kill_and_look(process: "subprocess.Popen[str]", count: int) -> None:
    until(lambda: len(tree(process)) >= count, 30)
    family = tree(process)
    process.kill()
    until(lambda: not any(alive(member) for member in family), 5)


@pytest.fixture
def smol(setup: Setup, starter_model: Path) -> None:
    (setup.models_dir / "smol.gguf").symlink_to(starter_model)


@pytest.mark.usefixtures("smol")
def test_m07_embedded_engine_goes_with_a_killed_daemon(setup: Setup) -> None:
    with daemon(setup, engine="embedded") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        kill_and_look(process, 2)
    with daemon(setup, engine="embedded") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        process.send_signal(signal.SIGTERM)


@pytest.mark.usefixtures("smol")
def test_m07_embedded_engine_goes_while_it_is_still_loading(setup: Setup) -> None:
    with daemon(setup, engine="embedded") as process:
        kill_and_look(process, 2)


def test_m07_binary_and_its_deaf_child_go_with_a_killed_daemon(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(setup.models_dir / "x.gguf")
    script = shlex.join([sys.executable, str(Path(__file__).with_name("fake_llama_server.py"))])
    program = tmp_path / "llama-server"
    program.write_text(f'#!/bin/sh\nexec {script} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "fake.json").write_text(json.dumps([{"deaf": True, "child": True}]))
    monkeypatch.setenv("FAKE_LLAMA", str(tmp_path / "fake.json"))
    with daemon(setup, engine="binary", binary=str(program)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        kill_and_look(process, 3)


@pytest.mark.usefixtures("smol")
def test_m08_no_pid_is_written_down_that_could_name_a_stranger(setup: Setup) -> None:
    with daemon(setup, engine="embedded") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        numbers = {str(member.pid) for member in tree(process)}
        for path in setup.root.rglob("*"):
            if path.is_file() and path.suffix != ".gguf":
                words = set(path.read_text(errors="replace").split())
                assert not words & numbers, f"{path} holds a process number"
        kill_and_look(process, 2)
    assert os.listdir(setup.data_dir) == []
