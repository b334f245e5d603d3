"""What a request waits for, how long, and what is told of it meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cerberus_core.engines import (
    Footprints,
    Lease,
    Manager,
    ModelPolicy,
    Policies,
    RoomRules,
    Waited,
)
from cerberus_core.testing import FakeClock
from cerberus_core.values import ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def slow(clock: FakeClock, backend: ToyBackend) -> Callable[..., Any]:
    """Room for one model, whose load takes two seconds."""

    async def load(*arguments: Any) -> Any:
        await clock.sleep(2)
        return await ToyBackend.load(backend, *arguments)

    backend.load = load  # type: ignore[method-assign]

    @asynccontextmanager
    async def slow(**policies: Any) -> AsyncIterator[Manager]:
        manager = Manager(
            {"toy": backend},
            policies=Policies(**policies),
            clock=clock,
            footprints=Footprints(),
            rules=RoomRules(max_loaded=1, max_wait_s=30, settle_s=0),
            changed=told.append,
        )
        async with manager.running():
            yield manager

    told: list[ModelInfo] = []
    slow.told = told  # type: ignore[attr-defined]
    return slow


async def got(clock: FakeClock, asked: "asyncio.Task[Lease]", within_s: int = 60) -> Lease:
    for _ in range(within_s):
        if asked.done():
            break
        await clock.advance(1)
    return await asked


def ask(manager: Manager, name: str, **more: Any) -> "asyncio.Task[Lease]":
    return asyncio.create_task(manager.acquire(name, **more))


async def test_the_load_the_wait_for_others_and_who_left_are_told_apart(
    slow: Callable[..., Any], clock: FakeClock
) -> None:
    async with slow() as manager:
        first = await got(clock, ask(manager, "toy/a"))
        assert first.waited == Waited(load_s=2)
        again = await manager.acquire("toy/a")
        assert again.waited is None
        asked = ask(manager, "toy/b")
        await clock.advance(5)
        for lease in (first, again):
            lease.release()
        second = await got(clock, asked)
        assert second.waited == Waited(queue_s=5, load_s=2, evicted=("toy/a",))
        late = ask(manager, "toy/b")
        assert (await late).waited is None


async def test_a_turn_in_the_queue_of_a_loaded_model_is_no_load(
    clock: FakeClock, start: Callable[..., Any]
) -> None:
    async with start(models={"toy/a": ModelPolicy(ttl_s=0, concurrency=1)}) as manager:
        first = await manager.acquire("toy/a")
        asked = ask(manager, "toy/a")
        await clock.advance(3)
        assert (await manager.model("toy/a")).queued == 1
        first.release()
        assert (await asked).waited == Waited(queue_s=3)


async def test_a_load_says_how_long_it_will_take_and_whom_it_waits_for(
    slow: Callable[..., Any], clock: FakeClock
) -> None:
    async with slow() as manager:
        (await got(clock, ask(manager, "toy/b"))).release()
        await manager.unload("toy/b")
        lease = await got(clock, ask(manager, "toy/a"))
        slow.told.clear()  # type: ignore[attr-defined]
        asked = ask(manager, "toy/b")
        await clock.advance(4)
        waiting = await manager.model("toy/b")
        assert (waiting.state, waiting.waits_for, waiting.eta_s) == ("loading", ("toy/a",), 2)
        assert slow.told[-1].waits_for == ("toy/a",), "watchers hear of it"  # type: ignore[attr-defined]
        lease.release()
        await clock.advance(0.5)
        loading = await manager.model("toy/b")
        assert (loading.waits_for, loading.eta_s) == ((), 1.5)
        ready = await got(clock, asked)
        assert (await manager.model("toy/b")).eta_s is None
        ready.release()


async def test_a_model_that_a_session_used_is_kept_for_its_next_turn(
    slow: Callable[..., Any], clock: FakeClock, backend: ToyBackend
) -> None:
    async with slow(session_hold_s=20) as manager:
        (await got(clock, ask(manager, "toy/a", in_session=True))).release()
        asked = ask(manager, "toy/b")
        await clock.advance(10)
        assert (await manager.model("toy/b")).waits_for == ("toy/a",)
        (await manager.acquire("toy/a", in_session=True)).release()  # its next turn
        await clock.advance(19)
        assert backend.loaded == {"toy/a"}
        await clock.advance(1)
        assert (await got(clock, asked)).waited == Waited(queue_s=30, load_s=2, evicted=("toy/a",))


async def test_a_request_of_nobodys_session_does_not_end_the_hold_of_another(
    slow: Callable[..., Any], clock: FakeClock
) -> None:
    async with slow(session_hold_s=20) as manager:
        (await got(clock, ask(manager, "toy/a", in_session=True))).release()
        (await manager.acquire("toy/a")).release()
        assert (await got(clock, ask(manager, "toy/b"))).waited == Waited(
            queue_s=20, load_s=2, evicted=("toy/a",)
        )


async def test_who_comes_while_it_loads_waits_for_the_rest_of_the_load_and_nobody_else(
    slow: Callable[..., Any], clock: FakeClock
) -> None:
    async with slow() as manager:
        first = ask(manager, "toy/a")
        await clock.advance(1.5)
        second = ask(manager, "toy/a")
        await clock.advance(0.5)
        assert [(await asked).waited for asked in (first, second)] == [
            Waited(load_s=2), Waited(load_s=0.5),
        ]  # fmt: skip


async def test_who_leaves_by_hand_has_not_left_for_the_next_one(
    slow: Callable[..., Any], clock: FakeClock, backend: ToyBackend
) -> None:
    leave = asyncio.Event()

    async def unload(model: ModelInfo) -> None:
        await leave.wait()
        await ToyBackend.unload(backend, model)

    backend.unload = unload  # type: ignore[method-assign]
    async with slow() as manager:
        (await got(clock, ask(manager, "toy/a"))).release()
        await manager.unload("toy/a", wait=False)
        await clock.advance(0)
        asked = ask(manager, "toy/b")
        await clock.advance(3)
        waits_for = (await manager.model("toy/b")).waits_for
        leave.set()
        assert waits_for == ("toy/a",)
        assert (await got(clock, asked)).waited == Waited(queue_s=3, load_s=2)


async def test_a_session_that_goes_on_holds_nobody_up_longer_than_the_rules_say(
    slow: Callable[..., Any], clock: FakeClock
) -> None:
    async with slow(session_hold_s=20) as manager:
        (await got(clock, ask(manager, "toy/a", in_session=True))).release()
        asked = ask(manager, "toy/b")
        for _ in range(3):
            await clock.advance(9)
            (await manager.acquire("toy/a", in_session=True)).release()
        await clock.advance(3)
        assert (await manager.model("toy/b")).waits_for == ()
        assert (await got(clock, asked, within_s=3)).waited is not None


async def test_without_a_session_nobody_is_kept_waiting(
    slow: Callable[..., Any], clock: FakeClock
) -> None:
    async with slow(session_hold_s=20) as manager:
        (await got(clock, ask(manager, "toy/a"))).release()
        assert (await got(clock, ask(manager, "toy/b"), within_s=3)).waited == Waited(
            load_s=2, evicted=("toy/a",)
        )
