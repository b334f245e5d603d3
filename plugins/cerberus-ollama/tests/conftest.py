import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location(
    "fake_ollama", Path(__file__).with_name("fake_ollama.py")
)
assert _spec is not None
assert _spec.loader is not None
_fake_ollama = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fake_ollama)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def fake() -> AsyncIterator[Any]:
    async with _fake_ollama.FakeOllama() as server:
        yield server
