"""Two models with room for one: nobody is cut off, nobody waits for ever, little is swapped."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cerberus_core.engines import Manager, ModelPolicy, Policies, RoomRules
from cerberus_core.testing import FakeClock
from cerberus_core.values import ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio


class One(ToyBackend):
    """There is room for one engine; notes who was loaded, and whether there were ever two."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        self.most = 0

    async def load(self, model: ModelInfo, *arguments: Any) -> Any:
        endpoint = await super().load(model, *arguments)
        self.order.append(model.name)
        self.most = max(self.most, len(self.loaded))
        return endpoint


@pytest.fixture
def small(clock: FakeClock) -> Callable[..., Any]:
    @asynccontextmanager
    async def small(max_wait_s: float) -> Any:
        backend = One()
        policy = ModelPolicy(ttl_s=600, concurrency=1)
        manager = Manager(
            {"toy": backend},
            policies=Policies(models={"toy/a": policy, "toy/b": policy}),
            clock=clock,
            rules=RoomRules(max_loaded=1, max_wait_s=max_wait_s, settle_s=0),
        )
        async with manager.running():
            yield manager, backend

    return small


async def use(manager: Manager, clock: FakeClock, name: str, into: list[tuple[str, float]]) -> None:
    lease = await manager.acquire(f"toy/{name}")
    try:
        await clock.sleep(1)
        into.append((name, clock.monotonic()))
    finally:
        lease.release()


async def test_m01_two_models_with_room_for_one_are_never_there_at_once(
    small: Callable[..., Any], clock: FakeClock
) -> None:
    async with small(max_wait_s=30) as (manager, backend):
        done: list[tuple[str, float]] = []
        tasks = [asyncio.create_task(use(manager, clock, name, done)) for name in "ab" * 10]
        for _ in range(120):
            await clock.advance(1)
        await asyncio.gather(*tasks)
        assert (backend.most, len(done)) == (1, 20)


@pytest.mark.parametrize(("max_wait_s", "order"), [(30, "ab"), (3, "aba")])
async def test_m04_one_request_among_ten_neither_swaps_each_time_nor_waits_for_ever(
    small: Callable[..., Any], clock: FakeClock, max_wait_s: float, order: str
) -> None:
    async with small(max_wait_s=max_wait_s) as (manager, backend):
        done: list[tuple[str, float]] = []
        tasks = [asyncio.create_task(use(manager, clock, "a", done)) for _ in range(10)]
        await clock.advance(0.5)
        tasks.append(asyncio.create_task(use(manager, clock, "b", done)))
        for _ in range(60):
            await clock.advance(1)
        await asyncio.gather(*tasks)
        assert len(done) == 11
        assert "".join(backend.order) == order
        asked, answered = 0.5, next(at for name, at in done if name == "b")
        # One answer of A that runs, and its own second.
        assert answered - asked <= min(max_wait_s, 10) + 2.5


async def test_a_load_without_room_says_why_and_the_next_one_may_try_at_once(
    clock: FakeClock,
) -> None:
    backend = One()
    manager = Manager(
        {"toy": backend},
        policies=Policies(models={"toy/a": ModelPolicy(ttl_s=0, pinned=True)}),
        clock=clock,
        rules=RoomRules(max_loaded=1, settle_s=0),
    )
    async with manager.running():
        await manager.load("toy/a")
        for _ in range(3):  # nobody waits for it, as on the page
            await manager.load("toy/b", wait=False)
            await clock.advance(1)
            told = await manager.model("toy/b")
            assert told.state == "failed"
            assert "toy/a is pinned" in (told.failure or "")
        await manager.unload("toy/a")
        assert (await manager.load("toy/b")).state == "ready"
