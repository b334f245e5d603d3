"""First come, first served; nobody is forgotten and nobody is counted twice."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.engines.queue import Queue
from cerberus_core.errors import Overloaded, Unavailable

pytestmark = pytest.mark.anyio


async def come(queue: Queue, name: str, into: list[str]) -> None:
    if not queue.try_enter():
        await queue.wait(queue.join())
    into.append(name)


async def test_the_queue_keeps_its_order_and_nobody_overtakes() -> None:
    queue, inside = Queue(limit=1), list[str]()
    tasks = [asyncio.create_task(come(queue, name, inside)) for name in "abc"]
    await asyncio.sleep(0)
    assert inside == []
    queue.open()
    for _ in range(3):
        await asyncio.sleep(0)
        assert queue.in_flight == 1
        late = asyncio.create_task(come(queue, "late", inside))
        await asyncio.sleep(0)
        tasks.append(late)
        queue.leave()
    await asyncio.sleep(0)
    assert inside[:4] == ["a", "b", "c", "late"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(queue) == 0


async def test_too_many_that_wait_are_sent_away() -> None:
    queue = Queue(limit=1, longest=2)
    queue.join()
    queue.join()
    with pytest.raises(Overloaded, match="2 requests wait") as caught:
        queue.join()
    assert caught.value.retry_after_s


async def test_one_that_gives_up_in_the_last_moment_is_counted_out() -> None:
    queue, inside = Queue(limit=1), list[str]()
    task = asyncio.create_task(come(queue, "a", inside))
    await asyncio.sleep(0)
    queue.open()  # let in, but its task has not run yet
    assert queue.in_flight == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (queue.in_flight, inside) == (0, [])
    assert queue.try_enter()


async def test_one_that_has_just_given_up_does_not_hold_up_the_next() -> None:
    queue, inside = Queue(limit=1), list[str]()
    queue.open()
    assert queue.try_enter()
    first, second = (asyncio.create_task(come(queue, name, inside)) for name in "ab")
    await asyncio.sleep(0)
    first.cancel()
    queue.leave()  # before the task of the first has run
    await second
    assert (inside, queue.in_flight) == (["b"], 1)


async def test_a_closed_queue_lets_those_inside_go_on() -> None:
    queue = Queue()
    queue.open()
    assert queue.try_enter()
    queue.close()
    assert not queue.try_enter()
    place = queue.join()
    queue.leave()
    assert (queue.in_flight, place.done()) == (0, False)
    queue.fail(Unavailable("no"))
    with pytest.raises(Unavailable):
        await queue.wait(place)


@given(st.lists(st.sampled_from(["enter", "leave", "cancel", "open", "close", "fail"])))
async def test_the_count_is_always_that_of_those_inside(steps: list[str]) -> None:
    queue = Queue(limit=2)
    waiting: list[asyncio.Task[None]] = []
    inside: list[str] = []
    for step in steps:
        if step == "enter":
            waiting.append(asyncio.create_task(come(queue, "x", inside)))
        elif step == "leave" and inside:
            inside.pop()
            queue.leave()
        elif step == "cancel" and waiting:
            waiting.pop().cancel()
        elif step == "open":
            queue.open()
        elif step == "close":
            queue.close()
        elif step == "fail":
            queue.fail(Unavailable("no"))
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert queue.in_flight == len(inside) <= 2
    assert len(queue) == sum(not task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
