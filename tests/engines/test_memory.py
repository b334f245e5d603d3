"""What models are seen to take, and when that is no news of them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from cerberus_core.engines import Manager, Policies, Pools, RoomRules
from cerberus_core.engines.footprints import Footprints
from cerberus_core.engines.residency import Pool
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

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate:
        return Estimate(weights_mib=300)

    async def taken(self, model: ModelInfo) -> Mapping[str, int]:
        self.asked.set()
        await self.tell.wait()
        return {"host": self.mib}

    async def unload(self, model: ModelInfo) -> None:
        self.mib = 7
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
        await manager.unload("toy/a")
        backend.tell.set()
        await clock.advance(1)
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


async def test_what_loaded_models_take_is_told_by_pool_and_who_had_to_leave(
    clock: FakeClock,
) -> None:
    backend = Telling()
    backend.tell.set()
    rules = RoomRules(max_loaded=1)
    manager = Manager(
        {"toy": backend},
        policies=Policies(),
        clock=clock,
        pools=cast(Pools, backend),
        rules=rules,
    )
    async with manager.running():
        assert [pool.taken_mib for pool in await manager.pools()] == [0]
        lists = backend.calls["list"]
        await manager.load("toy/a")
        assert [model.state for model in manager.known()] == ["ready", "unloaded"]
        [pool] = await manager.pools()
        assert (pool.name, pool.total_mib, pool.taken_mib > 0) == ("host", 1000, True)
        assert dict(manager.evictions) == {}
        await manager.load("toy/b")
        assert dict(manager.evictions) == {"toy/a": 1}
        await manager.unload("toy/b")
        assert [pool.taken_mib for pool in await manager.pools()] == [0]
        assert backend.calls["list"] == lists + 1  # none of these asked the backend
