"""One running daemon for each test, with a model that the scripted endpoint serves."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cerberus_core.api import build
from cerberus_core.testing import ScriptedServer
from tests.api.direct import services
from tests.conftest import Box, StartBox, endpoint


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream)) as box:
        yield box


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Any]:
    made = services(tmp_path / "usage")
    yield build(made)
    made.store.close()
