"""SIGHUP: a service reads its settings anew; one whose terminal is gone stops."""

import json
import os
import pty
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.processes import clean_env, start_daemon, stop_daemon

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")

QUIET = 'blocked_plugins = ["llamacpp", "hello", "amd", "nvidia", "rapl"]\n'


def until(what: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_service_reads_its_settings_anew(tmp_path: Path) -> None:
    running = start_daemon(tmp_path, QUIET + "[engines]\nttl_s = 1\n")
    log = tmp_path / "serve.err"
    try:
        before = running.folders.config_file.read_text()
        running.folders.config_file.unlink()  # which nobody takes for an order
        running.process.send_signal(signal.SIGHUP)  # but this is one
        until(lambda: "settings_read" in log.read_text())
        running.folders.config_file.write_text(before)
        running.process.send_signal(signal.SIGHUP)
        until(lambda: log.read_text().count("settings_read") == 2)
        ttl_s = json.loads(running.cli("config", "diff", "--json").stdout)["changes"]
        assert ttl_s == []
        assert running.process.poll() is None
    finally:
        stop_daemon(running)
    assert "Traceback" not in log.read_text()


def test_a_daemon_whose_terminal_is_gone_stops(tmp_path: Path) -> None:
    env = clean_env(tmp_path) | {"TERM": "xterm"}
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "config.toml"
    file.write_text(QUIET + "[engines]\nttl_s = 1\n")
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-m", "cerberus_core", "serve", "--port", "0"]
        os.execve(sys.executable, command, env)
    daemon = psutil.Process(pid)
    announced = tmp_path / "data" / "daemon.json"
    try:
        until(announced.exists)
        file.unlink()
        os.kill(pid, signal.SIGHUP)  # its terminal is there: it reads, and goes on
        shown = b""
        while b"settings_read" not in shown:
            shown += os.read(terminal, 1024)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        os.close(terminal)
        until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid)
    finally:
        if daemon.is_running() and daemon.status() != psutil.STATUS_ZOMBIE:
            daemon.kill()
            os.waitpid(pid, 0)
    assert not announced.exists(), "it was killed and did not stop by itself"
