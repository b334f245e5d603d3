"""Admission to memory, on models made of paper and a clock turned by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest

from cerberus_core.engines.residency import Footprint, Go, MakeRoom, Pool, Resident, Want
from cerberus_core.engines.room import Room, RoomRules
from cerberus_core.errors import NoRoom
from cerberus_core.testing import FakeClock

pytestmark = pytest.mark.anyio


class Paper:
    """A model that takes memory, is in use or idle, and leaves when it may."""

    def __init__(self, house: "House", model: str, mib: int, **facts: Any) -> None:
        self.house, self.model, self.mib, self.facts = house, model, mib, facts
        self.here = True
        self.asked = 0
        self.told = 0

    def resident(self, footprint: Footprint) -> Resident | None:
        return Resident(model=self.model, footprint=footprint, **self.facts) if self.here else None

    def ask_unload(self) -> None:
        self.asked += 1
        if not self.facts.get("busy"):
            self.go()

    def tell(self) -> None:
        self.told += 1

    wanted = True

    @property
    def leaving(self) -> bool:
        return self.asked > 0

    def done(self) -> None:
        """Its last request has ended."""
        self.facts["busy"] = False
        if self.asked:
            self.go()
        self.house.room.changed()

    def go(self) -> None:
        self.here = False
        if self.house.comes_back:
            self.house.free += self.mib
        self.house.room.changed()


class House:
    def __init__(self, clock: FakeClock, rules: RoomRules) -> None:
        self.clock = clock
        self.models: dict[str, Paper] = {}
        self.free = 1000
        self.comes_back = True
        self.looking: Callable[[], object] = lambda: None
        """Called while the memory is looked at."""
        self.sizes: dict[str, int] = {}
        self.room = Room(lambda: self.models, self.pools, self.footprint, rules=rules, clock=clock)

    async def pools(self) -> Sequence[Pool]:
        await asyncio.sleep(0)
        self.looking()
        return [Pool(name="host", total=1000, free=self.free, budget=1000)]

    def footprint(self, model: str) -> Footprint:
        return {"host": self.sizes.get(model, 0)}

    def add(self, model: str, mib: int, **facts: Any) -> Paper:
        self.sizes[model] = mib
        self.free -= mib
        self.models[model] = Paper(self, model, mib, **facts)
        self.room.changed()
        return self.models[model]

    def ask(
        self, model: str, mib: int, *, oversize: bool = False
    ) -> "asyncio.Task[list[tuple[str, str]]]":
        self.sizes[model] = mib
        paper = self.models.setdefault(model, Paper(self, model, mib))
        paper.here = False
        want = Want(model=model, footprint={"host": mib}, oversize=oversize)
        return asyncio.create_task(self.room.admit(want))

    async def rest(self) -> None:
        await self.clock.advance(0)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    clock = FakeClock()
    house = House(clock, RoomRules(max_wait_s=30, settle_s=5))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.room.run)
        yield house
        tasks.cancel_scope.cancel()


async def test_there_is_room_at_once(house: House) -> None:
    task = house.ask("a", 400)
    await house.rest()
    assert task.result() == []


async def test_what_is_promised_is_not_given_twice(house: House) -> None:
    first, second = house.ask("a", 600), house.ask("b", 600)
    await house.rest()
    assert (first.done(), second.done()) == (True, False)
    assert house.room.waits_for("b") == ("a",)
    house.models["a"].here = True  # it is loaded now, and idle
    house.free -= 600
    house.room.settled("a")
    await house.clock.advance(0.25)
    assert [model for model, _ in second.result()] == ["a"]


async def test_an_idle_model_leaves_and_who_left_is_told(house: House) -> None:
    house.add("old", 700, idle_s=90)
    task = house.ask("a", 600)
    await house.clock.advance(0.25)
    assert [model for model, _ in task.result()] == ["old"]
    assert not house.models["old"].here


async def test_memory_that_is_slow_to_come_back_is_waited_for(house: House) -> None:
    house.add("old", 400, idle_s=90)
    house.add("other", 400, idle_s=10)
    house.comes_back = False
    task = house.ask("a", 500)
    await house.clock.advance(2)
    assert not task.done()
    assert house.models["other"].here, "nobody else is sent away meanwhile"
    house.free += 400
    await house.clock.advance(0.25)
    assert task.done()
    assert house.models["other"].here


async def test_memory_that_does_not_come_back_is_no_reason_to_wait_for_ever(house: House) -> None:
    house.add("old", 400, idle_s=90)
    house.comes_back = False
    task = house.ask("a", 800)
    await house.clock.advance(6)
    with pytest.raises(NoRoom, match=r"200 MiB of host.* hold 400 MiB of it") as caught:
        task.result()
    assert caught.value.retry_after_s == 10


async def test_models_in_use_are_waited_for_and_then_asked_to_leave(house: House) -> None:
    busy = house.add("busy", 700, busy=True)
    task = house.ask("a", 600)
    await house.clock.advance(29)
    assert (busy.asked, house.room.waits_for("a")) == (0, ("busy",))
    await house.clock.advance(2)
    assert busy.asked == 1
    assert busy.here, "its request goes on"
    busy.done()
    await house.clock.advance(0.25)
    assert task.result() == [("busy", "a has waited for 30 s")]


async def test_one_that_falls_idle_in_time_makes_room_at_once(house: House) -> None:
    busy = house.add("busy", 700, busy=True)
    task = house.ask("a", 600)
    await house.clock.advance(3)
    busy.done()
    await house.clock.advance(0.25)
    assert [model for model, _ in task.result()] == ["busy"]


async def test_who_needs_nobody_to_leave_may_pass_the_one_that_waits(house: House) -> None:
    house.add("busy", 700, busy=True)
    big, small = house.ask("big", 600), house.ask("small", 200)
    await house.rest()
    assert (big.done(), small.done()) == (False, True)


async def test_room_that_is_made_for_one_is_not_taken_by_those_behind(house: House) -> None:
    short, long = house.add("short", 500, busy=True), house.add("long", 500, busy=True)
    first = house.ask("first", 800)
    await house.clock.advance(31)
    assert (short.asked, long.asked) == (1, 1)
    behind = house.ask("behind", 400)
    short.done()
    await house.clock.advance(6)
    assert not behind.done(), "what is free now was made free for the first"
    long.done()
    await house.clock.advance(0.25)
    assert (first.done(), behind.done()) == (True, False)
    behind.cancel()


async def test_one_that_gives_up_is_forgotten(house: House) -> None:
    busy = house.add("busy", 700, busy=True)
    task = house.ask("a", 600)
    await house.rest()
    task.cancel()
    await house.clock.advance(60)
    assert busy.asked == 0
    later = house.ask("b", 100)
    await house.rest()
    assert later.done()


async def test_one_that_is_cancelled_as_it_is_let_in_takes_nothing(house: House) -> None:
    first = house.ask("a", 800)
    while not house.room._promised:
        await asyncio.sleep(0)
    first.cancel()
    await house.rest()
    second = house.ask("b", 800)
    await house.rest()
    assert second.done()


async def test_one_that_gives_up_while_memory_is_looked_at_takes_nothing(house: House) -> None:
    first = house.ask("a", 800)
    house.looking = first.cancel
    await house.rest()
    assert first.cancelled()
    second = house.ask("b", 800)
    await house.rest()
    assert second.done()


async def test_one_behind_does_not_put_off_the_end_of_the_wait_of_the_first(house: House) -> None:
    busy = house.add("busy", 700, busy=True)
    first, behind = house.ask("a", 600), house.ask("b", 600)
    await house.clock.advance(31)
    assert busy.asked == 1
    for task in (first, behind):
        task.cancel()


async def test_one_that_is_held_no_longer_leaves_at_once(house: House) -> None:
    held = house.add("held", 700, held_s=7.0)
    task = house.ask("a", 600)
    await house.clock.advance(6)
    assert house.room.waits_for("a") == ("held",)
    held.facts["held_s"] = 0.0
    await house.clock.advance(1.25)
    assert [model for model, _ in task.result()] == ["held"]


async def test_what_can_never_fit_is_refused_in_words(house: House) -> None:
    task = house.ask("a", 1500)
    await house.rest()
    with pytest.raises(
        NoRoom, match="There is no room for a: 500 MiB of host are missing"
    ) as caught:
        task.result()
    assert caught.value.retry_after_s is None, "waiting doesn't help"


async def test_what_can_never_fit_is_refused_at_once_whoever_is_leaving(house: House) -> None:
    house.add("busy", 700, busy=True)
    first = house.ask("a", 600)
    await house.clock.advance(31)  # it was asked to leave, and still answers
    never = house.ask("b", 1500)
    await house.rest()
    assert (first.done(), never.done()) == (False, True)
    with pytest.raises(NoRoom):
        never.result()
    first.cancel()


async def test_nobody_waits_for_memory_that_would_not_be_enough(house: House) -> None:
    old = house.add("old", 400, idle_s=90)
    house.add("other", 400, idle_s=10)
    house.comes_back = False
    old.ask_unload()  # by hand, just now
    house.comes_back = True
    task = house.ask("a", 700)
    await house.rest()
    assert not house.models["other"].here, "it has to leave in any case"
    await house.clock.advance(2)
    assert not task.done()
    house.free += 400
    await house.clock.advance(0.25)
    assert [model for model, _ in task.result()] == ["other"]


async def test_a_plan_tells_and_does_nothing(house: House) -> None:
    house.add("old", 700, idle_s=90)
    plan = house.room.plan(Want(model="a", footprint={"host": 600}), await house.pools())
    assert isinstance(plan, MakeRoom)
    assert house.models["old"].here
    assert house.room.plan(Want(model="a", footprint={"host": 300}), await house.pools()) == Go()


async def test_memory_is_waited_for_whoever_sent_the_model_away(house: House) -> None:
    old = house.add("old", 700, busy=True)
    task = house.ask("a", 600)
    await house.rest()
    house.comes_back = False
    old.ask_unload()  # by hand
    old.done()
    await house.clock.advance(1)
    assert not task.done(), "its memory isn't back yet, and that is no reason to refuse"
    house.free += 700
    await house.clock.advance(0.25)
    assert task.done()


async def test_one_that_may_be_larger_waits_for_memory_to_come_back_and_is_let_in(
    house: House,
) -> None:
    house.comes_back = False
    small = house.add("small", 600)
    task = house.ask("huge", 3000, oversize=True)
    await house.rest()
    assert (small.asked, task.done()) == (1, False)
    await house.clock.advance(4)
    assert not task.done(), "the memory of the one that left isn't back yet"
    await house.clock.advance(1.25)
    assert [model for model, _ in task.result()] == ["small"]


async def test_who_finds_no_room_is_told_how_to_insist(house: House) -> None:
    task = house.ask("toy/huge", 3000)
    await house.clock.advance(6)
    with pytest.raises(NoRoom) as caught:
        await task
    hint = caught.value.hint or ""
    assert """`cerberus config set 'models."toy/huge".oversize' true`""" in hint
