from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cerberus_llamacpp.backend import LlamaCpp
from cerberus_llamacpp.settings import Settings
from cerberus_llamacpp.testing import Setup, starter_file


@pytest.fixture(scope="session")
def starter_model(pytestconfig: pytest.Config) -> Path:
    return starter_file(pytestconfig.rootpath / ".cache" / "models")


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


@pytest.fixture
async def make_backend(setup: Setup) -> AsyncIterator[Any]:
    """Makes backends over `setup`'s folders, and closes them at the end."""
    made: list[LlamaCpp] = []

    def make(**values: Any) -> LlamaCpp:
        values = {"engine": "embedded", "threads": 1, "parallel": 1, "context": 512} | values
        backend = LlamaCpp(setup, Settings(**values))
        made.append(backend)
        return backend

    yield make
    for backend in made:
        await backend.aclose()
