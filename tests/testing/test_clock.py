"""The fake clock wakes sleepers in order and without real time."""

import asyncio

from cerberus_core.platform import Clock
from cerberus_core.testing import FakeClock


def test_it_is_a_clock() -> None:
    clock: Clock = FakeClock()
    assert clock.monotonic() == 0


def test_sleepers_wake_in_order_and_at_their_time() -> None:
    async def run() -> list[tuple[str, float]]:
        clock = FakeClock()
        woken: list[tuple[str, float]] = []

        async def nap(name: str, *times: float) -> None:
            for seconds in times:
                await clock.sleep(seconds)
                woken.append((name, clock.monotonic()))

        async with asyncio.TaskGroup() as group:
            group.create_task(nap("a", 3, 1))
            group.create_task(nap("b", 1, 1, 1.5))
            await clock.until_sleeping(2)
            await clock.advance(0.5)
            assert woken == []
            await clock.advance(10)
            assert clock.sleepers == 0
            assert clock.monotonic() == 10.5
            assert (clock.now() - FakeClock().now()).total_seconds() == 10.5
        return woken

    assert asyncio.run(run()) == [("b", 1), ("b", 2), ("a", 3), ("b", 3.5), ("a", 4)]


def test_a_cancelled_sleeper_is_passed_over() -> None:
    async def run() -> None:
        clock = FakeClock()
        task = asyncio.create_task(clock.sleep(1))
        await clock.until_sleeping()
        task.cancel()
        await asyncio.wait([task])
        assert clock.sleepers == 0
        await clock.advance(2)
        await clock.sleep(0)
        await clock.sleep(-1)

    asyncio.run(run())
