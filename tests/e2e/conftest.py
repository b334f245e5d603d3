"""The real engine with the starter model, in this process's daemon or in one of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cerberus_llamacpp.testing import starter_model

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
    "starter_model",
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
