"""A daemon that was killed, and the next one: what is ours ends, what is not lives (M07, M08)."""

import json
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import httpx
import psutil
import pytest
from cerberus_llamacpp.testing import write_gguf

from cerberus_core.platform import Folders
from tests.processes import DaemonProcess, gone_within, start_daemon, stop_daemon

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

ENGINE = Path(__file__).parents[2] / "plugins/cerberus-llamacpp/tests/fake_llama_server.py"
STRANGER = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    print("up", flush=True)
    while True:
        server.accept()[0].close()
"""


@attrs.frozen
class Place:
    """A user's folders with one model, whose engine and its child don't heed SIGTERM."""

    folder: Path
    config: str
    variables: dict[str, str]

    @property
    def daemon_file(self) -> Path:
        return Folders(self.folder / "config", self.folder / "data").daemon_file

    def start(self) -> DaemonProcess:
        return start_daemon(self.folder, self.config, **self.variables)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    write_gguf(tmp_path / "gguf" / "tiny.gguf")
    engine = tmp_path / "llama-server"
    engine.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(ENGINE)])} "$@"\n')
    engine.chmod(0o755)
    fake = tmp_path / "fake.json"
    fake.write_text(json.dumps([{"deaf": True, "child": True}]))
    config = (
        f'[plugins.llamacpp]\nengine = "binary"\nbinary = {json.dumps(str(engine))}\n'
        f"folders = {json.dumps([str(tmp_path / 'gguf')])}\nstop_grace_s = 0.2\n"
    )
    return Place(tmp_path, config, {"FAKE_LLAMA": str(fake)})


@pytest.fixture
def sleep() -> Iterator[psutil.Process]:
    """A process that is none of ours."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield psutil.Process(process.pid)
        process.kill()


def load(running: DaemonProcess) -> list[psutil.Process]:
    """Its guard, its engine and the engine's child, once the model is ready."""
    url = f"{running.url}/api/models/load/llamacpp/tiny"
    answer = httpx.post(url, headers=running.headers, timeout=30)
    assert answer.json()["state"] == "ready", answer.text
    family = running.descendants()
    assert len(family) == 3
    return family


def port_of(family: list[psutil.Process]) -> int:
    [argv] = [argv for member in family if "--port" in (argv := member.cmdline())]
    return int(argv[argv.index("--port") + 1])


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_m07_after_a_kill_ours_are_gone_and_a_stranger_on_the_engines_port_lives(
    place: Place, sleep: psutil.Process
) -> None:
    first = place.start()
    family = load(first)
    port = port_of(family)
    first.process.kill()
    stop_daemon(first)
    assert gone_within(family, 5)
    command = [sys.executable, "-c", STRANGER, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stranger:
        try:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "up\n"
            second = place.start()
            try:
                family = load(second)
                assert port_of(family) != port
            finally:
                stop_daemon(second)
            assert gone_within(family, 5)
            assert stranger.poll() is None
            socket.create_connection(("127.0.0.1", port), 5).close()
            assert alive(sleep)
        finally:
            stranger.kill()


def test_m08_a_stale_daemon_file_that_names_a_stranger_harms_nobody(
    place: Place, sleep: psutil.Process
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    for number in (sleep.pid, dead.pid):
        place.daemon_file.parent.mkdir(exist_ok=True)
        said = {"pid": number, "url": "http://127.0.0.1:9", "version": "0"}
        place.daemon_file.write_text(json.dumps(said))
        running = place.start()
        try:
            assert json.loads(place.daemon_file.read_text())["pid"] == running.process.pid
            assert running.cli("status").returncode == 0
        finally:
            stop_daemon(running)
        assert not place.daemon_file.exists()
        assert alive(sleep)


def test_m08_a_running_daemon_writes_down_no_number_but_its_own(
    place: Place, sleep: psutil.Process
) -> None:
    running = place.start()
    try:
        family = load(running)
        numbers = {str(member.pid) for member in family}
        kept = [path for path in place.daemon_file.parent.rglob("*") if path.is_file()]
        assert place.daemon_file in kept
        for path in kept:
            words = path.read_text(errors="replace").replace('"', " ").replace(",", " ").split()
            assert not numbers & set(words), f"{path} holds the number of an engine"
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
        # Killed, it leaves its file; nobody trusts it, since its lock is free.
        assert json.loads(place.daemon_file.read_text())["pid"] == running.process.pid
        assert running.cli("status").returncode == 3
        assert gone_within(family, 5)
    finally:
        stop_daemon(running)
    assert alive(sleep)
