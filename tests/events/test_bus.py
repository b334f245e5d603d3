"""The bus of live events (U07)."""

from collections.abc import AsyncGenerator, AsyncIterator

import anyio
import anyio.lowlevel
import pytest

from cerberus_core.events import Bus
from cerberus_core.values import Event

pytestmark = pytest.mark.anyio


async def take(stream: AsyncIterator[Event], count: int) -> list[Event]:
    with anyio.fail_after(5):
        return [await anext(stream) for _ in range(count)]


async def test_u07_a_reader_that_comes_back_gets_what_it_missed() -> None:
    bus = Bus(capacity=64)
    bus.publish("model", 0)
    last = f"{bus.boot}-1"
    for n in range(1, 21):
        bus.publish("model", n)
    events = await take(bus.follow(last), 20)
    assert [event.data for event in events] == list(range(1, 21))


async def test_u07_one_that_missed_too_much_is_told_to_reload_and_goes_on() -> None:
    bus = Bus(capacity=4)
    for n in range(20):
        bus.publish("model", n)
    reader = bus.follow(f"{bus.boot}-1")
    first = await anext(reader)
    assert first.type == "reload"
    bus.publish("model", "new")
    assert (await anext(reader)).data == "new"
    assert bus.event_id(first) == f"{bus.boot}-20", "resuming from the reload misses nothing"


@pytest.mark.parametrize("last", ["", "nonsense", "other-3", "-", "x-9999999999999999999999"])
async def test_an_id_of_another_life_is_answered_with_a_reload(last: str) -> None:
    bus = Bus()
    bus.publish("model", 1)
    assert (await anext(bus.follow(last))).type == "reload"


async def test_an_id_from_the_future_is_answered_with_a_reload() -> None:
    bus = Bus()
    assert (await anext(bus.follow(f"{bus.boot}-7"))).type == "reload"


async def test_a_slow_reader_costs_no_memory_and_is_told_to_reload() -> None:
    bus = Bus(capacity=8)
    reader = bus.follow()
    async with anyio.create_task_group() as tasks:
        got: list[Event] = []

        async def read_two() -> None:
            got.extend(await take(reader, 2))

        tasks.start_soon(read_two)
        await anyio.lowlevel.checkpoint()
        bus.publish("a", 1)
        await anyio.lowlevel.checkpoint()
        bus.publish("a", 2)
    for n in range(100):
        bus.publish("a", n)
    assert (await anext(reader)).type == "reload"


async def test_closing_ends_every_reader_and_leaves_none_behind() -> None:
    bus = Bus()
    reading = ended = 0

    async def read(events: AsyncGenerator[Event]) -> None:
        nonlocal reading, ended
        async for _ in events:
            reading += 1
        ended += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(read, bus.follow())
        bus.publish("x", {})
        while reading < 3:
            await anyio.lowlevel.checkpoint()
        bus.close()
    assert (ended, len(bus._readers)) == (3, 0)
