"""The daemon's log: without secrets, and never a reason to fail or to wait."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cerberus_core.cli.log_stream import LogStream
from cerberus_core.cli.logs import _Stderr
from tests.processes import clean_env, install_plugin


class Closed:
    """A pipe whose reader has left."""

    def write(self, _: str) -> None:
        raise BrokenPipeError

    def flush(self) -> None:
        raise ValueError("I/O operation on closed file")


def test_a_log_that_nobody_reads_any_more_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Closed())
    log = _Stderr()
    log.write("a line\n")
    log.flush()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(writing)
    os.close(reading)


def read_until(fd: int, end: str) -> str:
    text = ""
    while not text.endswith(end):
        text += os.read(fd, 65536).decode()
    return text


@pytest.mark.parametrize("blocking", [True, False])
def test_lines_that_nobody_reads_are_counted_and_told_once(
    pipe: tuple[int, int], blocking: bool
) -> None:
    reading, writing = pipe
    os.set_blocking(writing, blocking)
    log = LogStream(writing, limit=100_000)
    for number in range(5000):
        log.write(f"line {number:05} {'x' * 100}\n")
    text = read_until(reading, "nobody read them in time\n")
    log.write("the end\n")
    log.finish()
    text += read_until(reading, "the end\n")
    *lines, told, end = [line for line in text.splitlines() if line]
    assert told == f"{5000 - len(lines)} lines of the log were dropped: nobody read them in time"
    assert end == "the end"
    assert [line[:10] for line in lines] == [f"line {n:05}" for n in range(len(lines))]
    assert len(lines) >= 100_000 // 112


def test_the_end_waits_for_what_is_written_but_not_for_ever(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    log = LogStream(writing)
    log.write("é\udc80\n")
    log.finish(timeout=10)
    assert os.read(reading, 100) == "é\\udc80\n".encode()
    log.write("x" * 1_000_000)
    log.finish(timeout=0.05)
    reader = threading.Thread(target=read_until, args=(reading, "done"))
    reader.start()
    log.write("done")
    reader.join(10)
    assert not reader.is_alive()


NOISY = """
    import sys
    import structlog
    from cerberus_core import hookimpl
    from cerberus_core.interfaces import Backend

    class Noisy(Backend):
        name = "noisy"
        async def list(self):
            for number in range(3000):
                structlog.get_logger("noisy").warning("x" * 1000, number=number)
                print("y" * 1000, file=sys.stderr)
            return []
        async def load(self, model, plan, report):
            raise NotImplementedError

    @hookimpl
    def cerberus_model_backends(setup):
        return [Noisy()]
"""


@contextmanager
def noisy_daemon(folder: Path) -> Iterator["tuple[subprocess.Popen[str], str]"]:
    """A daemon with a plugin that logs 6 MB; its stderr is a pipe that is not read."""
    config = folder / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text('blocked_plugins = ["llamacpp", "hello", "openai"]\n')
    command = [sys.executable, "-m", "cerberus_core", "serve", "--port", "0", "--json"]
    env = {**clean_env(folder), **install_plugin(folder, "noisy", NOISY)}
    with subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            while not said.endswith("}\n"):
                said += process.stdout.readline()
            yield process, json.loads(said)["url"]
        finally:
            process.kill()


def test_a_daemon_whose_log_nobody_reads_goes_on_and_ends_when_asked(tmp_path: Path) -> None:
    with noisy_daemon(tmp_path) as (process, url):
        for _ in range(3):
            with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
                assert answer.status == 200
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert time.monotonic() - began < 10
        assert not (tmp_path / "data" / "daemon.json").exists()


def test_what_was_logged_is_all_there_once_it_is_read(tmp_path: Path) -> None:
    with noisy_daemon(tmp_path) as (process, _):
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=20)
        assert process.returncode == 0
    lines = text.splitlines()
    written = sum("xxxx" in line or "yyyy" in line for line in lines)
    told = lines[-1]
    assert told.endswith("lines of the log were dropped: nobody read them in time")
    # "Stopping" is a line too, and one may be in two parts.
    assert written + int(told.split()[0]) in (6000, 6001, 6002)
