from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.stand_ins import stand_in


@pytest.fixture
async def fake() -> AsyncIterator[Any]:
    async with stand_in("ollama", "fake_ollama").FakeOllama() as server:
        yield server
