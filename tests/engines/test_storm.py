"""Random loads, crashes, cancels and jumps of the clock: what must hold through all of it."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.engines import Manager, ModelPolicy, Policies, Pools, RoomRules
from cerberus_core.engines.residency import Pool
from cerberus_core.errors import CerberusError, LoadFailed
from cerberus_core.testing import FakeClock
from cerberus_core.values import Endpoint, Estimate, LoadPlan, LoadProgress, ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio

TOTAL = 1000
SLOW_S = 0.8
"""How long memory takes to come back."""
SIZES = {"a": 400, "b": 400, "c": 300, "d": 700, "e": 1200}


class Tight(ToyBackend):
    """Its models take memory from the start of a load to the end of an unload; it watches."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("abcde")
        self.clock = clock
        self.used: dict[str, int] = {}
        self.users: dict[str, int] = {}
        self.faults: list[str] = []
        self.fail_next = False
        self.ending = False
        self.seen: set[str] = set()
        """Models whose memory shows as taken: not at once."""
        self.ghosts: list[tuple[float, int]] = []
        """Memory of models that have left, until it has come back."""

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate:
        return Estimate(weights_mib=SIZES[model.name])

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        if model.id in self.used:
            self.faults.append(f"two engines for {model.id}")
        self.used[model.id] = SIZES[model.name]
        if self.taken_mib() > TOTAL:
            self.faults.append(f"over budget: {self.used}")
        try:
            await self.clock.sleep(1)
            self.seen.add(model.id)
            await self.clock.sleep(1)
            if self.fail_next:
                self.fail_next = False
                raise LoadFailed("a bad day")
            return await super().load(model, plan, report)
        except BaseException:
            del self.used[model.id]
            self.seen.discard(model.id)
            raise

    async def unload(self, model: ModelInfo) -> None:
        if self.users.get(model.id):
            self.faults.append(f"{model.id} was unloaded in use")
        if not self.ending:  # nobody turns the clock then
            await self.clock.sleep(0.5)
        await super().unload(model)
        self.seen.discard(model.id)
        mib = self.used.pop(model.id, None)
        if mib is not None:
            self.ghosts.append((self.clock.monotonic() + SLOW_S, mib))

    def taken_mib(self) -> int:
        now = self.clock.monotonic()
        return sum(self.used.values()) + sum(mib for until, mib in self.ghosts if now < until)

    def crash(self, model_id: str, reason: str = "exit code 1", *, crashed: bool = True) -> None:
        self.seen.discard(model_id)
        self.used.pop(model_id, None)
        self.users.pop(model_id, None)
        super().crash(model_id, reason, crashed=crashed)

    async def look(self, *, fresh: bool = False) -> Sequence[Pool]:
        await asyncio.sleep(0)
        unseen = sum(mib for model, mib in self.used.items() if model not in self.seen)
        free = TOTAL - self.taken_mib() + unseen
        return [Pool(name="host", total=TOTAL, free=free, budget=TOTAL)]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from("abcde"), st.integers(1, 20)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("crash"), st.sampled_from("abcd")),
        st.tuples(st.just("fail")),
        st.tuples(st.just("unload"), st.sampled_from("abcd")),
        st.tuples(st.just("load"), st.sampled_from("abcd")),
        st.tuples(st.just("jump"), st.sampled_from([0.1, 1.0, 7.0, 40.0, 100_000.0])),
        st.tuples(st.just("set the clock"), st.sampled_from([-90_000.0, 90_000.0])),
    ),
    max_size=40,
)
policies = Policies(
    default_ttl_s=60,
    queue_limit=4,
    models={
        "toy/a": ModelPolicy(ttl_s=60, concurrency=1, queue_limit=4),
        "toy/c": ModelPolicy(ttl_s=0, exclusive=True),
    },
)


@settings(deadline=None, max_examples=150)
@given(steps)
async def test_what_holds_through_any_storm(storm: list[Any]) -> None:
    clock = FakeClock()
    backend = Tight(clock)
    manager = Manager(
        {"toy": backend},
        policies=policies,
        clock=clock,
        pools=cast(Pools, backend),
        rules=RoomRules(max_wait_s=10, settle_s=1),
    )
    outcomes: list[str] = []

    async def use(name: str, seconds: float) -> None:
        model_id = f"toy/{name}"
        try:
            lease = await manager.acquire(model_id)
        except CerberusError as error:
            outcomes.append(error.code)
            if error.code == "no_room" and name != "e":
                backend.faults.append(f"{name} was refused: {error}")
            return
        except asyncio.CancelledError:
            outcomes.append("cancelled")
            raise
        engine = backend.crashes[model_id]
        backend.users[model_id] = backend.users.get(model_id, 0) + 1
        try:
            await clock.sleep(seconds)
            outcomes.append("answered")
        except asyncio.CancelledError:
            outcomes.append("cancelled")
            raise
        finally:
            # A crash has sent its users home already.
            if backend.users.get(model_id) and not engine.done():
                backend.users[model_id] -= 1
            lease.release()

    async with manager.running():
        try:
            tasks: list[asyncio.Task[None]] = []
            for step in storm:
                what, *more = step
                if what == "ask":
                    tasks.append(asyncio.create_task(use(*more)))
                elif what == "cancel" and tasks:
                    tasks[more[0] % len(tasks)].cancel()
                elif what == "crash" and f"toy/{more[0]}" in backend.loaded:
                    backend.crash(f"toy/{more[0]}", crashed=len(tasks) % 2 == 0)
                elif what == "fail":
                    backend.fail_next = True
                elif what == "unload":
                    await manager.unload(f"toy/{more[0]}", wait=False)
                elif what == "load":
                    with contextlib.suppress(CerberusError):
                        await manager.load(f"toy/{more[0]}", wait=False)
                elif what == "jump":
                    await clock.advance(more[0])
                elif what == "set the clock":
                    clock.jump(more[0])
                await asyncio.sleep(0)
                assert not backend.faults, backend.faults
            for _ in range(40):
                await clock.advance(30)
            await asyncio.gather(*tasks, return_exceptions=True)
            assert not backend.faults, backend.faults
            assert all(task.done() for task in tasks), "a waiter was forgotten"
            never_begun = sum(task.cancelled() for task in tasks) - outcomes.count("cancelled")
            assert len(outcomes) + never_begun == len(tasks)
            for model in await manager.models():
                assert model.in_flight == 0
            assert manager._memory._room._tickets == []
            assert manager._memory._room._promised == {}
        finally:
            backend.ending = True
    assert backend.used == {}
