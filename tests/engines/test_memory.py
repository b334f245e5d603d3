"""What models are seen to take, and when that is no news of them."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from cerberus_core.engines import Manager, Policies, Pools
from cerberus_core.engines.footprints import Footprints
from cerberus_core.engines.residency import Footprint, Pool
from cerberus_core.errors import Overloaded
from cerberus_core.testing import FakeClock
from cerberus_core.values import Estimate, LoadPlan, ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio


class Telling(ToyBackend):
    """Says what a model takes, once `gate` is open; less and less of it while it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.mib = 400
        self.asked = asyncio.Event()
        self.tell = asyncio.Event()
        self.leave = asyncio.Event()
        self.leave.set()

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate:
        return Estimate(weights_mib=300)

    async def taken(self, model: ModelInfo) -> Mapping[str, int]:
        self.asked.set()
        await self.tell.wait()
        return {"host": self.mib}

    async def unload(self, model: ModelInfo) -> None:
        self.mib = 7
        await self.leave.wait()
        await super().unload(model)

    async def look(self, *, fresh: bool = False) -> Sequence[Pool]:
        return [Pool(name="host", total=1000, free=1000, budget=1000)]


async def test_what_a_model_takes_while_it_leaves_is_not_learned(clock: FakeClock) -> None:
    backend = Telling()
    manager = Manager(
        {"toy": backend}, policies=Policies(), clock=clock, pools=cast(Pools, backend)
    )
    async with manager.running():
        await manager.load("toy/a")
        await backend.asked.wait()
        backend.leave.clear()
        unloading = asyncio.create_task(manager.unload("toy/a"))
        while backend.mib == 400:
            await asyncio.sleep(0)
        backend.tell.set()
        for _ in range(20):
            await asyncio.sleep(0.001)  # in a thread
        backend.leave.set()
        await unloading
        plan = await manager.plan("toy/a")
        assert (plan.source, plan.footprint) == ("estimated", {"host": 300})
        backend.mib = 400
        await manager.load("toy/a")
        for _ in range(100):
            plan = await manager.plan("toy/a")
            if plan.source == "learned":
                break
            await asyncio.sleep(0.01)
        assert plan.footprint == {"host": 400}


async def test_what_an_engine_took_that_has_left_since_is_not_learned_of_the_next(
    clock: FakeClock,
) -> None:
    backend = Telling()
    told = asyncio.Event()

    async def taken(model: ModelInfo) -> Mapping[str, int]:
        if not backend.asked.is_set():
            backend.asked.set()
            await backend.tell.wait()
            return {"host": 7}  # of the engine that left meanwhile
        told.set()
        await asyncio.Event().wait()
        return {}

    backend.taken = taken  # type: ignore[method-assign]
    manager = Manager(
        {"toy": backend}, policies=Policies(), clock=clock, pools=cast(Pools, backend)
    )
    async with manager.running():
        await manager.load("toy/a")
        await backend.asked.wait()
        await manager.unload("toy/a")
        await manager.load("toy/a")
        await told.wait()
        backend.tell.set()
        for _ in range(20):
            await asyncio.sleep(0.001)  # in a thread
        assert (await manager.plan("toy/a")).source == "estimated"


async def test_the_cards_of_an_engine_that_left_while_they_were_noted_are_not_those_of_the_next(
    clock: FakeClock, backend: ToyBackend
) -> None:
    noting, go = threading.Event(), threading.Event()

    class Slow(Footprints):
        def learn_taken(self, *arguments: Any, **more: Any) -> Footprint:
            noting.set()
            go.wait(5)
            return super().learn_taken(*arguments, **more)

    async def taken(model: ModelInfo) -> Mapping[str, int] | None:
        return None if noting.is_set() else {"gpu": 100}

    async def look(*, fresh: bool = False) -> Sequence[Pool]:
        return [Pool(name=name, total=1000, free=1000, budget=1000) for name in ("host", "cards0")]

    pools = Pools()
    pools.look = look  # type: ignore[method-assign]
    backend.taken = taken  # type: ignore[method-assign]
    manager = Manager(
        {"toy": backend}, policies=Policies(), clock=clock, pools=pools, footprints=Slow()
    )
    async with manager.running():
        (await manager.acquire("toy/a")).release()
        while not noting.is_set():
            await asyncio.sleep(0.001)
        await manager.unload("toy/a")
        lease = await manager.acquire("toy/a")
        go.set()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert lease.cards is None
        lease.release()


async def test_who_is_sent_away_during_a_load_hears_how_long_loads_take(clock: FakeClock) -> None:
    backend = ToyBackend()
    backend.gate = asyncio.Event()
    footprints = Footprints()
    footprints.learn_load("toy/a", LoadPlan(), 6.5, clock.now())
    manager = Manager(
        {"toy": backend}, policies=Policies(queue_limit=1), clock=clock, footprints=footprints
    )
    async with manager.running():
        waiting = asyncio.create_task(manager.acquire("toy/a"))
        while not backend.calls["load"]:
            await asyncio.sleep(0)
        with pytest.raises(Overloaded) as caught:
            await manager.acquire("toy/a")
        assert caught.value.retry_after_s == 7
        backend.gate.set()
        (await waiting).release()
