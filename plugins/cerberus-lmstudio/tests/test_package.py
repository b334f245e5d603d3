"""The plugin keeps the contract, and is there only where something says that LM Studio is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cerberus_lmstudio.settings import Settings

from cerberus_core.testing import check_backends, check_package


def test_package() -> None:
    check_package("lmstudio")


@pytest.mark.anyio
async def test_its_models_are_well_named(fake: Any, tmp_path: Path) -> None:
    fake.install("qwen/qwen3-4b")
    fake.install("模型")
    backends = await check_backends("lmstudio", tmp_path, {"base_url": fake.url})
    listed = await backends["lmstudio"].list()
    assert [model.id for model in listed] == ["lmstudio/qwen/qwen3-4b", "lmstudio/模型"]


def test_one_that_is_down_says_what_to_do(tmp_path: Path) -> None:
    asyncio.run(check_backends("lmstudio", tmp_path, {"base_url": "http://127.0.0.1:1"}))


def test_where_nothing_says_that_there_is_one_there_is_no_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert asyncio.run(check_backends("lmstudio", tmp_path)) == {}
    folder = tmp_path / ".lmstudio" / "bin"
    folder.mkdir(parents=True)
    (folder / "lms").write_text("#!/bin/sh\n")
    (folder / "lms").chmod(0o755)
    assert list(asyncio.run(check_backends("lmstudio", tmp_path))) == ["lmstudio"]


@pytest.mark.parametrize("wrong", ["127.0.0.1:1234", "http://a/v1", "http://u:p@a", "ftp://a", ""])
def test_what_is_no_address_is_told(wrong: str) -> None:
    with pytest.raises(ValueError, match="base_url must be an address"):
        Settings(base_url=wrong)


def test_a_key_that_cant_be_sent_is_refused_and_not_told() -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        Settings(api_key="geheim\n")
    assert "geheim" not in str(caught.value)
