from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.stand_ins import stand_in


@pytest.fixture
async def fake() -> AsyncIterator[Any]:
    async with stand_in("lmstudio", "fake_lmstudio").FakeLMStudio() as server:
        yield server
