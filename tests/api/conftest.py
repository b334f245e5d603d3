"""One running daemon for each test, with a model that the scripted endpoint serves."""

from collections.abc import AsyncIterator

import pytest

from cerberus_core.testing import ScriptedServer
from tests.conftest import Box, StartBox, endpoint


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream)) as box:
        yield box
