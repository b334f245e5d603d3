import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location(
    "fake_lmstudio", Path(__file__).with_name("fake_lmstudio.py")
)
assert _spec is not None
assert _spec.loader is not None
_fake_lmstudio = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fake_lmstudio)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def fake() -> AsyncIterator[Any]:
    async with _fake_lmstudio.FakeLMStudio() as server:
        yield server
