"""Models that don't load to an end, don't leave, or are there by somebody else's doing."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import attrs
import pytest

from cerberus_core.engines import Footprints, Manager, Policies, RoomRules
from cerberus_core.engines.life import NO_ROOM_SHOWN_S, STALL_S, STAYS_S
from cerberus_core.engines.residency import Pool
from cerberus_core.errors import CerberusError, LoadFailed, NoRoom, Unavailable
from cerberus_core.testing import FakeClock
from cerberus_core.values import Endpoint, Estimate, LoadPlan, LoadProgress, ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio


class Shared(ToyBackend):
    """A server with 500 MiB of its own, whose models take 300 each and tell it."""

    def __init__(self, names: str = "abc") -> None:
        super().__init__(names)
        self.theirs: set[str] = set()
        """Loaded by others."""
        self.refuses: set[str] = set()
        self.hangs: set[str] = set()
        self.facts: dict[str, Any] = {}
        self.estimates_mib = 300
        self.takes: asyncio.Future[int] | None = None
        """Where it is set, who asks what a model takes waits for it."""

    async def list(self) -> "list[ModelInfo]":
        there = self.loaded | self.theirs
        return [
            attrs.evolve(m, state="ready" if m.id in there else "unloaded", **self.facts)
            for m in await super().list()
        ]

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        if model.id in self.hangs:
            self.calls["hung"] += 1
            await asyncio.Event().wait()
        report(LoadProgress())
        self.theirs.discard(model.id)
        return await super().load(model, plan, report)

    async def unload(self, model: ModelInfo) -> None:
        if model.id in self.refuses:
            self.calls["refused"] += 1
            raise Unavailable("the server said no")
        await super().unload(model)
        self.theirs.discard(model.id)

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        return Estimate(weights_mib=self.estimates_mib, on_gpu=False)

    async def taken(self, model: ModelInfo) -> dict[str, int] | None:
        mib = 300 if self.takes is None else await self.takes
        return {"host": mib} if model.id in self.loaded | self.theirs else None

    # The memory.

    budget_mib = None

    async def look(self, *, fresh: bool = False) -> Sequence[Pool]:
        free = 1000 - 300 * len(self.loaded | self.theirs)
        return [Pool(name="host", total=1000, free=free, budget=500)]


def manager_of(backend: Shared, clock: FakeClock, **policies: Any) -> Manager:
    return Manager(
        {"toy": backend},
        policies=Policies(**policies),
        clock=clock,
        list_ttl_s=0,
        pools=backend,  # type: ignore[arg-type]
        footprints=Footprints(),
        rules=RoomRules(max_wait_s=5, settle_s=0),
    )


async def soon(clock: FakeClock, task: "asyncio.Task[Any]", within_s: int = 10) -> Any:
    for _ in range(within_s * 4):
        if task.done():
            break
        await clock.advance(0.25)
    assert task.done()
    return await task


async def measured(manager: Manager, clock: FakeClock) -> None:
    await manager.models()
    for _ in range(20):
        await asyncio.sleep(0.001)  # in a thread


async def test_a_load_that_nobody_waits_for_gives_way(clock: FakeClock) -> None:
    backend = Shared()
    backend.hangs = {"toy/a"}
    async with manager_of(backend, clock).running() as manager:
        impatient = asyncio.create_task(manager.acquire("toy/a"))
        await clock.advance(1)
        impatient.cancel()
        lease = await soon(clock, asyncio.create_task(manager.acquire("toy/b")))
        assert (await manager.model("toy/a")).state == "unloaded"
        lease.release()


async def test_a_load_that_somebody_waits_for_is_waited_for_and_a_stalled_one_ends(
    clock: FakeClock,
) -> None:
    backend = Shared()
    backend.hangs = {"toy/a"}
    async with manager_of(backend, clock).running() as manager:
        patient = asyncio.create_task(manager.acquire("toy/a"))
        await clock.advance(1)
        other = asyncio.create_task(manager.acquire("toy/b"))
        await clock.advance(60)
        assert not other.done()
        await clock.advance(STALL_S)
        with pytest.raises(LoadFailed, match="no sign of life for 3600 s"):
            await patient
        (await soon(clock, other)).release()


async def test_one_that_refuses_to_leave_stays_counted_and_by_hand_it_is_told(
    clock: FakeClock,
) -> None:
    backend = Shared()
    backend.refuses = {"toy/a"}
    async with manager_of(backend, clock).running() as manager:
        (await manager.acquire("toy/a")).release()
        with pytest.raises(Unavailable, match="toy/a did not leave memory: the server said no"):
            await manager.unload("toy/a")
        told = await manager.model("toy/a")
        assert told.state == "ready"
        assert "the server said no" in (told.failure or "")
        with pytest.raises(NoRoom, match="toy/a did not leave when asked to"):
            await soon(clock, asyncio.create_task(manager.acquire("toy/b")))
        assert backend.loaded == {"toy/a"}
        backend.refuses.clear()
        await clock.advance(STAYS_S)
        (await soon(clock, asyncio.create_task(manager.acquire("toy/b")))).release()
        assert backend.loaded == {"toy/b"}


async def test_one_that_refuses_to_leave_for_another_does_not_hold_up_a_third(
    clock: FakeClock,
) -> None:
    backend = Shared("abcd")
    backend.refuses = {"toy/a"}
    backend.budget = 700
    async with manager_of(backend, clock).running() as manager:
        (await manager.acquire("toy/a")).release()
        with pytest.raises(NoRoom):
            await soon(clock, asyncio.create_task(manager.acquire("toy/b")))
        assert backend.calls["refused"] == 1
        assert (await manager.model("toy/b")).state == "failed"
        await clock.advance(NO_ROOM_SHOWN_S)
        gone = await manager.model("toy/b")
        assert (gone.state, gone.failure) == ("unloaded", None), "it says nothing true any more"


async def test_what_others_loaded_counts_and_may_leave(clock: FakeClock) -> None:
    backend = Shared()
    backend.theirs = {"toy/a"}
    async with manager_of(backend, clock).running() as manager:
        await measured(manager, clock)
        lease = await soon(clock, asyncio.create_task(manager.acquire("toy/b")))
        assert (backend.loaded, backend.theirs) == ({"toy/b"}, set())
        lease.release()


async def test_what_others_loaded_is_taken_over_within_the_budget(clock: FakeClock) -> None:
    backend = Shared()
    async with manager_of(backend, clock).running() as manager:
        (await manager.acquire("toy/b")).release()
        backend.theirs = {"toy/a"}
        await measured(manager, clock)
        backend.estimates_mib = 100  # no guess counts for what is there, and measured
        lease = await soon(clock, asyncio.create_task(manager.acquire("toy/a")))
        assert backend.loaded == {"toy/a"}, "600 of 500 MiB otherwise"
        lease.release()


async def test_what_others_unloaded_while_it_was_measured_is_measured_anew(
    clock: FakeClock,
) -> None:
    backend, go = Shared(), asyncio.Event()
    takes = 300

    async def taken(model: ModelInfo) -> dict[str, int]:
        told = {"host": takes}
        await go.wait()
        return told

    backend.taken = taken  # type: ignore[method-assign]
    async with manager_of(backend, clock).running() as manager:
        for theirs in ({"toy/a"}, set[str]()):
            backend.theirs = theirs
            await measured(manager, clock)
        go.set()
        await clock.advance(0)
        backend.theirs, takes = {"toy/a"}, 100
        await measured(manager, clock)
        assert (await manager.plan("toy/a")).footprint == {"host": 100}


async def test_nobody_enters_a_model_that_goes_for_idleness(
    clock: FakeClock, start: Callable[..., Any], backend: ToyBackend
) -> None:
    async with start(ttl_s=5) as manager:
        (await manager.acquire("toy/a")).release()
        for _ in range(20):
            await asyncio.sleep(0)
        clock._elapsed = 4.999
        advance = asyncio.create_task(clock.advance(0.001))
        for _ in range(40):
            await asyncio.sleep(0)
            lease = manager.try_acquire("toy/a")
            if lease is not None:
                assert (await manager.model("toy/a")).loaded
                life = manager._lives["toy/a"]
                for _ in range(20):
                    await asyncio.sleep(0)
                assert life.endpoint is lease.endpoint, "it is not taken away under a request"
                lease.release()
        await advance


async def test_a_deleted_model_is_not_loaded_for_those_who_wait(
    clock: FakeClock, start: Callable[..., Any], backend: ToyBackend
) -> None:
    seen: list[str] = []

    async def remove(model: ModelInfo) -> None:
        await asyncio.sleep(0.01)
        seen.append((await manager.model("toy/a")).state)

    backend.remove = remove  # type: ignore[method-assign]
    async with start() as manager:
        lease = await manager.acquire("toy/a")
        removing = asyncio.create_task(manager.remove("toy/a"))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(manager.acquire("toy/a"))
        await asyncio.sleep(0)
        lease.release()
        with anyio.fail_after(5):
            await removing
        with pytest.raises(CerberusError, match="being deleted"):
            await waiting
        assert seen == ["unloaded"]
        (await manager.acquire("toy/a")).release()  # the toy keeps it


async def test_a_load_by_hand_while_it_drains_is_not_lost(
    clock: FakeClock, start: Callable[..., Any], backend: ToyBackend
) -> None:
    async with start() as manager:
        lease = await manager.acquire("toy/a")
        await manager.unload("toy/a", wait=False)
        await manager.load("toy/a", wait=False)
        lease.release()
        for _ in range(50):
            await asyncio.sleep(0)
        assert (await manager.model("toy/a")).state == "ready"
        assert backend.calls["load"] == 2


async def test_who_comes_while_a_crashing_engine_is_cleared_away_backs_off_too(
    clock: FakeClock, start: Callable[..., Any], backend: ToyBackend
) -> None:
    gate = asyncio.Event()

    async def unload(model: ModelInfo) -> None:
        await gate.wait()
        await ToyBackend.unload(backend, model)

    async with start() as manager:
        for _ in range(2):
            (await manager.acquire("toy/a")).release()
            if backend.calls["load"] == 2:
                backend.unload = unload  # type: ignore[method-assign]
            backend.crash("toy/a")
            for _ in range(20):
                await asyncio.sleep(0)
        assert (await manager.model("toy/a")).state == "draining"
        with pytest.raises(LoadFailed, match="2 times in a row"):
            await manager.acquire("toy/a")
        gate.set()
    assert backend.calls["load"] == 2


async def test_what_the_list_says_of_a_loaded_model_counts_once_it_has_left(
    clock: FakeClock,
) -> None:
    backend = Shared()
    async with manager_of(backend, clock).running() as manager:
        (await manager.acquire("toy/a")).release()
        backend.facts = {"size_mib": 9000}
        await manager.models(fresh=True)
        await manager.unload("toy/a")
        assert (await manager.model("toy/a")).size_mib == 9000


async def test_one_that_its_server_has_loaded_anew_can_be_unloaded(clock: FakeClock) -> None:
    backend = Shared()
    async with manager_of(backend, clock).running() as manager:
        (await manager.acquire("toy/a")).release()
        await manager.models()
        await manager.unload("toy/a")
        await clock.advance(1)
        backend.theirs = {"toy/a"}
        assert (await manager.model("toy/a")).state == "ready"
        await manager.unload("toy/a")
        assert backend.theirs == set()


async def test_a_fresh_list_is_asked_for_after_the_call(clock: FakeClock) -> None:
    backend = Shared()
    gate, begun = asyncio.Event(), Counter[str]()
    real = backend.list

    async def slow() -> list[ModelInfo]:
        rows = await real()
        begun["list"] += 1
        if begun["list"] == 1:
            await gate.wait()
        return rows

    backend.list = slow  # type: ignore[method-assign]
    async with manager_of(backend, clock).running() as manager:
        early = asyncio.create_task(manager.models())
        await asyncio.sleep(0)
        backend.names = ["a"]
        fresh = asyncio.create_task(manager.models(fresh=True))
        await asyncio.sleep(0)
        gate.set()
        assert [model.name for model in await fresh] == ["a"]
        await early
