"""What models are seen to take, and when that is no news of them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from cerberus_core.engines import Manager, Policies, Pools
from cerberus_core.engines.residency import Pool
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

    async def look(self) -> Sequence[Pool]:
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
