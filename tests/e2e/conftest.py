"""The real engine with the starter model, in this process's daemon or in one of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import (
    DaemonProcess,
    clean_env,
    gone_within,
    run_cli,
    start_daemon,
    stop_daemon,
)

__all__ = [
    "DaemonProcess",
    "clean_env",
    "gone_within",
    "run_cli",
    "start_daemon",
    "stop_daemon",
]

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


@pytest.fixture
def daemon(tmp_path: Path, engine_config: str) -> Iterator[DaemonProcess]:
    """A running `cerberus serve` with the real engine behind it."""
    running = start_daemon(tmp_path, engine_config)
    yield running
    stop_daemon(running)


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
