"""Calls of a driver: one at a time, under a limit, and a hang is forgotten once it is over."""

import asyncio
import threading

import pytest

from cerberus_core.errors import Unavailable
from cerberus_core.gpu.reader import Reader

pytestmark = pytest.mark.anyio


async def test_one_that_hung_and_came_back_may_be_slow_again() -> None:
    reader, first, second = Reader("driver"), threading.Event(), threading.Event()
    with pytest.raises(Unavailable, match="driver doesn't answer"):
        await reader.call(lambda: first.wait(5), 0.01)
    with pytest.raises(Unavailable):
        await reader.call(lambda: 1, 5)  # at once: it is known to hang
    first.set()
    await reader.rest(5)
    slow = asyncio.ensure_future(reader.call(lambda: second.wait(5), 5))
    await asyncio.sleep(0)
    slow.cancel()
    await asyncio.wait({slow})
    next_one = asyncio.ensure_future(reader.call(lambda: 2, 5))
    for _ in range(10):
        await asyncio.sleep(0)
    second.set()
    assert await next_one == 2
