"""The real engine with the starter model, in this process's daemon or in one of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import psutil
import pytest
from cerberus_llamacpp.testing import starter_model

from cerberus_core.platform import Folders

__all__ = ["starter_model"]

MODEL = "llamacpp/smol"


@pytest.fixture
def models_folder(starter_model: Path, tmp_path: Path) -> Path:
    """A folder that holds the starter model as `smol.gguf`."""
    folder = tmp_path / "gguf"
    folder.mkdir()
    (folder / "smol.gguf").symlink_to(starter_model)
    return folder


@pytest.fixture
def engine_config(models_folder: Path) -> str:
    return (
        'blocked_plugins = ["hello"]\n'
        "[plugins.llamacpp]\n"
        'engine = "embedded"\n'
        f"folders = {json.dumps([str(models_folder)])}\n"
        "threads = 1\nparallel = 2\ncontext = 1024\n"
    )


@attrs.define
class DaemonProcess:
    """`cerberus serve` as a process of its own."""

    process: "subprocess.Popen[str]"
    url: str
    token: str
    folders: Folders
    env: dict[str, str]

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def cli(self, *args: str, **more: object) -> "subprocess.CompletedProcess[str]":
        """Run `cerberus …` against it."""
        return run_cli(self.env, *args, **more)


def run_cli(env: dict[str, str], *args: str, **more: object) -> "subprocess.CompletedProcess[str]":
    """`cerberus …` in an environment of its own; never raises."""
    command = [sys.executable, "-m", "cerberus_core", *args]
    options = {"stdin": subprocess.DEVNULL, "timeout": 60, **more}
    return subprocess.run(command, env=env, capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


def clean_env(folder: Path) -> dict[str, str]:
    """An environment with nothing of the user's in it."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CERBERUS_CONFIG": str(folder / "config"),
        "CERBERUS_DATA": str(folder / "data"),
        "LANG": "C.UTF-8",
    }


def start_daemon(folder: Path, config: str, port: int = 0) -> DaemonProcess:
    """Start it and wait until it listens."""
    env = clean_env(folder)
    folders = Folders(folder / "config", folder / "data")
    folders.config.mkdir(parents=True, exist_ok=True)
    if not folders.config_file.exists():
        folders.config_file.write_text(config)
    with (folder / "serve.err").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cerberus_core", "serve", "--port", str(port), "--json"],
            env=env,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    deadline = time.monotonic() + 60
    while _pid_in(folders.daemon_file) != process.pid:
        said = (folder / "serve.err").read_text()
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.02)
    url = json.loads(folders.daemon_file.read_text())["url"]
    token = run_cli(env, "token").stdout.strip()
    return DaemonProcess(process, url, token, folders, env)


def _pid_in(file: Path) -> int | None:
    return json.loads(file.read_text())["pid"] if file.exists() else None


@pytest.fixture
def daemon(tmp_path: Path, engine_config: str) -> Iterator[DaemonProcess]:
    """A running `cerberus serve` with the real engine behind it."""
    running = start_daemon(tmp_path, engine_config)
    yield running
    stop_daemon(running)


def stop_daemon(running: DaemonProcess) -> None:
    if running.process.poll() is None:
        running.process.terminate()
        try:
            running.process.wait(30)
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()
    if running.process.stdout is not None:
        running.process.stdout.close()


def gone_within(processes: list[psutil.Process], seconds: float) -> bool:
    """Whether all of them end in time (a zombie has ended)."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


def engines(of: int) -> list[psutil.Process]:
    """The embedded engines below a process."""
    return [
        child
        for child in psutil.Process(of).children(recursive=True)
        if child.name() and "cerberus_llamacpp.engine" in child.cmdline()
    ]


class EngineAddress:
    """Address and key of the one engine below a process, from its environment and sockets."""

    def __init__(self, of: int) -> None:
        process = engines(of)[0]
        listening = [c for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        self.url = f"http://127.0.0.1:{listening[0].laddr.port}"
        key = next(v for k, v in process.environ().items() if k == "CERBERUS_ENGINE_KEY")
        self.headers = {"authorization": f"Bearer {key}"}
