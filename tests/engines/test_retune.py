"""Other settings while models are loaded: what is in use goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from cerberus_core.engines import Manager, ModelPolicy, Policies, Pools, RoomRules
from cerberus_core.errors import Overloaded
from cerberus_core.testing import FakeClock
from cerberus_core.values import LoadPlan
from tests.engines.conftest import ToyBackend
from tests.engines.test_manager import settle, state

pytestmark = pytest.mark.anyio
Start = Callable[..., Any]


def retune(
    manager: Manager,
    rules: RoomRules | None = None,
    *,
    memory_mib: int | None = None,
    list_ttl_s: float = 5.0,
    **policies: Any,
) -> None:
    manager.retune(
        Policies(**policies), rules or RoomRules(), memory_mib=memory_mib, list_ttl_s=list_ttl_s
    )


async def test_a_shorter_ttl_is_heeded_at_once_but_not_by_one_in_use(
    start: Start, backend: ToyBackend, clock: FakeClock
) -> None:
    async with start(ttl_s=0) as manager:
        (await manager.acquire("toy/a")).release()
        used = await manager.acquire("toy/b")
        await clock.advance(100)
        retune(manager, default_ttl_s=60.0)
        await settle()
        assert (await state(manager, "toy/a")).state == "unloaded"
        assert (await state(manager, "toy/b")).state == "ready"
        used.release()
        await clock.advance(59)
        assert (await state(manager, "toy/b")).state == "ready"
        await clock.advance(1)
        assert (await state(manager, "toy/b")).state == "unloaded"
    assert backend.calls["unload"] == 2


async def test_a_longer_ttl_counts_for_one_that_is_idle_already(
    start: Start, clock: FakeClock
) -> None:
    async with start(ttl_s=60) as manager:
        (await manager.acquire("toy/a")).release()
        await clock.advance(59)
        retune(manager, default_ttl_s=100.0)
        await clock.advance(40)
        assert (await state(manager)).state == "ready"
        await clock.advance(1)
        assert (await state(manager)).state == "unloaded"


async def test_the_plan_of_a_loaded_model_stays_until_it_is_loaded_anew(
    start: Start, backend: ToyBackend
) -> None:
    before = ModelPolicy(ttl_s=0, plan=LoadPlan(context=1))
    async with start(models={"toy/a": before}) as manager:
        (await manager.acquire("toy/a")).release()
        [life] = [life for life in manager._lives.values() if life.model.id == "toy/a"]
        retune(manager, models={"toy/a": attrs.evolve(before, plan=LoadPlan(context=2))})
        assert life.plan.context == 1, "what it takes would be learned of another plan"
        await manager.unload("toy/a")
        assert life.plan.context == 2
        (await manager.acquire("toy/a")).release()
    assert [plan.context for plan in backend.plans] == [1, 2]


async def test_a_load_that_waits_for_room_goes_on_as_it_was_planned(
    start: Start, backend: ToyBackend
) -> None:
    before = ModelPolicy(ttl_s=0, plan=LoadPlan(context=1))
    async with start(models={"toy/a": before}) as manager:
        retune(manager, RoomRules(max_loaded=1, max_wait_s=1000), models={"toy/a": before})
        first = await manager.acquire("toy/b")
        waiting = asyncio.create_task(manager.acquire("toy/a"))
        await settle()
        other = {"toy/a": attrs.evolve(before, plan=LoadPlan(context=2))}
        retune(manager, RoomRules(max_loaded=1, max_wait_s=1000), models=other)
        first.release()
        (await waiting).release()
    assert backend.plans[-1] == LoadPlan(context=1), "memory was found for another plan"


async def test_more_at_the_same_time_lets_those_in_who_wait(start: Start) -> None:
    one = ModelPolicy(ttl_s=0, concurrency=1)
    async with start(models={"toy/a": one}) as manager:
        first = await manager.acquire("toy/a")
        waiting = [asyncio.create_task(manager.acquire("toy/a")) for _ in range(2)]
        await settle()
        retune(manager, models={"toy/a": attrs.evolve(one, concurrency=2, queue_limit=1)})
        await settle()
        assert [task.done() for task in waiting] == [True, False]
        with pytest.raises(Overloaded):
            await manager.acquire("toy/a")
        retune(manager, models={"toy/a": attrs.evolve(one, concurrency=None)})
        await settle()
        for lease in [first, *[await task for task in waiting]]:
            lease.release()


async def test_an_alias_means_its_model_from_now_on(start: Start) -> None:
    async with start(aliases={"old": "toy/a"}) as manager:
        await manager.models()
        retune(manager, aliases={"new": "toy/b"})
        assert manager.try_acquire("old") is None
        assert (await manager.model("new")).id == "toy/b"


async def test_room_for_one_more_is_used_by_who_waits_for_it(start: Start) -> None:
    async with start() as manager:
        retune(manager, RoomRules(max_loaded=1, max_wait_s=1000))
        first = await manager.acquire("toy/a")
        second = asyncio.create_task(manager.acquire("toy/b"))
        await settle()
        assert not second.done()
        retune(manager, RoomRules(max_loaded=2))
        await settle()
        assert second.done()
        first.release()
        (await second).release()


async def test_less_room_sends_nobody_away_before_the_next_load(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager:
        for name in ("toy/a", "toy/b"):
            (await manager.acquire(name)).release()
        retune(manager, RoomRules(max_loaded=1))
        await settle()
        assert backend.calls["unload"] == 0


async def test_lists_are_kept_as_long_as_the_settings_say_now(
    start: Start, backend: ToyBackend
) -> None:
    async with start() as manager:
        for _ in range(2):
            await manager.models()
        assert backend.calls["list"] == 1
        retune(manager, list_ttl_s=0.0)
        for _ in range(2):
            await manager.models()
        assert backend.calls["list"] == 3


async def test_another_budget_counts_for_the_next_decision(
    clock: FakeClock, backend: ToyBackend
) -> None:
    made = Manager({"toy": backend}, policies=Policies(), clock=clock, pools=Pools())
    async with made.running():
        retune(made, memory_mib=123)
        assert (await made.plan("toy/a")).pools[0].budget_mib == 123
