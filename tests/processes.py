"""`cerberus` as processes of their own: the daemon, and commands as a person runs them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import attrs
import psutil

from cerberus_core.platform import Folders


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


def install_plugin(folder: Path, name: str, source: str) -> dict[str, str]:
    """A plugin of one module, and the variables with which a daemon finds it."""
    info = folder / "site" / f"cerberus_{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(f"[cerberus.plugins]\n{name} = {name}_plugin\n")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: cerberus-{name}\nVersion: 1.0\n")
    (folder / "site" / f"{name}_plugin.py").write_text(dedent(source))
    return {"PYTHONPATH": str(folder / "site")}


def start_daemon(folder: Path, config: str, port: int = 0, **more_env: str) -> DaemonProcess:
    """Start it and wait until it listens."""
    env = {**clean_env(folder), **more_env}
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


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port at which nobody listens, and which nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


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
