"""The plugin keeps the contract, and is there only where something says that Ollama is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cerberus_core.testing import check_backends, check_package


def test_package() -> None:
    check_package("ollama")


@pytest.mark.anyio
async def test_its_models_are_well_named(fake: Any, tmp_path: Path) -> None:
    fake.install("llama3:latest")
    fake.install("org/模型:q4")
    backends = await check_backends("ollama", tmp_path, {"base_url": fake.url})
    listed = await backends["ollama"].list()
    assert [model.id for model in listed] == ["ollama/llama3:latest", "ollama/org/模型:q4"]


def test_one_that_is_down_says_what_to_do(tmp_path: Path) -> None:
    asyncio.run(check_backends("ollama", tmp_path, {"base_url": "http://127.0.0.1:1"}))


def test_where_nothing_says_that_there_is_one_there_is_no_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(check_backends("ollama", tmp_path)) == {}
    (tmp_path / "ollama").write_text("#!/bin/sh\n")
    (tmp_path / "ollama").chmod(0o755)
    assert list(asyncio.run(check_backends("ollama", tmp_path))) == ["ollama"]
