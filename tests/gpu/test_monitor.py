"""Read while somebody is answered, else when asked; what fails is unknown and hurts nobody else."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import attrs
import pytest

from cerberus_core.gpu import Monitor, Share
from cerberus_core.testing import FakeClock
from cerberus_core.values import Availability
from tests.gpu.cards import Answer, Cards, Zones, card, lost, monitor

pytestmark = pytest.mark.anyio


async def learned(clock: FakeClock, made: Monitor, *, idle: Callable[[float], None]) -> None:
    """The idle draw is known: two readings with `idle(seconds)` in between."""
    await made.look()
    await made.refresh()
    await clock.advance(5)
    idle(5)
    await made.refresh()


@asynccontextmanager
async def running(made: Monitor) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.run)
        yield
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not condition():
            await anyio.sleep(0.001)


async def test_without_meters_all_is_unknown_and_nothing_is_asked() -> None:
    made = monitor(FakeClock())
    await made.look()
    snapshot = await made.fresh()
    assert (snapshot.gpus, snapshot.gpu_energy_j, snapshot.cpu_energy_j) == ((), None, None)
    assert made.ledger.begin(Answer()) is None


async def test_several_cards_and_zones_are_added_up_gpu_and_cpu_apart() -> None:
    clock = FakeClock()
    cards, zones = (
        Cards(card(0, energy_j=100.0), card(1, energy_j=7.0)),
        Zones(package=5.0, dram=1.0),
    )
    made = monitor(clock, cards, zones)
    await made.look()
    await made.refresh()
    await clock.advance(1)
    cards.change(0, energy_j=130.0)
    cards.change(1, energy_j=27.0)
    zones.joules = {"package": 9.0, "dram": 2.0}
    snapshot = await made.refresh()
    assert (snapshot.gpu_energy_j, snapshot.cpu_energy_j) == (50, 5)
    assert [gpu.name for gpu in snapshot.gpus] == ["Card 0", "Card 1"]
    assert snapshot.time == clock.now()


async def test_nobody_polls_while_nobody_is_answered() -> None:
    clock, cards = FakeClock(), Cards(card(energy_j=0.0))
    made = monitor(clock, cards)
    async with running(made):
        for n in range(3):  # the idle draw is learned first
            await until(lambda n=n: cards.reads == n + 1 and clock.sleepers == 1)  # type: ignore[misc]
            await clock.advance(1)
        await clock.advance(3600)
        assert (cards.reads, clock.sleepers) == (3, 0)
        use = made.ledger.begin(Answer())
        await until(lambda: cards.reads == 4 and clock.sleepers == 1)
        await clock.advance(0.5)
        await until(lambda: cards.reads == 5 and clock.sleepers == 1)
        assert use is not None
        shares: list[Share] = []
        use.end(3, shares.append)
        await clock.advance(0.5)
        await until(lambda: cards.reads == 6 and clock.sleepers == 1)
        assert len(shares) == 1
        await clock.advance(3600)
        assert cards.reads == 6


async def test_asked_for_it_is_read_again_once_it_is_older_than_the_idle_interval() -> None:
    clock, cards = FakeClock(), Cards(card())
    made = monitor(clock, cards, idle_interval_s=5.0)
    await made.fresh()
    await clock.advance(4.9)
    await made.fresh()
    assert cards.reads == 1
    await clock.advance(0.1)
    await made.fresh()
    assert cards.reads == 2


async def test_other_intervals_count_from_the_next_reading_on() -> None:
    clock, cards = FakeClock(), Cards(card(energy_j=0.0))
    made = monitor(clock, cards, idle_interval_s=5.0, active_interval_s=100.0)
    made.retune(active_interval_s=0.5, idle_interval_s=2.0)
    await made.fresh()
    await clock.advance(2)
    await made.fresh()
    assert cards.reads == 2
    assert made.ledger.least_s == 0.25
    async with running(made):
        for n in range(3):  # the idle draw is learned first
            await until(lambda n=n: cards.reads == n + 3 and clock.sleepers == 1)  # type: ignore[misc]
            await clock.advance(1)
        made.ledger.begin(Answer())
        await until(lambda: cards.reads == 6 and clock.sleepers == 1)
        await clock.advance(0.5)
        await until(lambda: cards.reads == 7)


async def test_a_refresh_is_never_answered_by_a_reading_that_began_before() -> None:
    clock, cards, go = FakeClock(), Cards(card(mem_used_mib=100)), threading.Event()
    made = monitor(clock, cards)
    await made.look()
    cards.before = lambda: [go.wait(5), None][1]
    first = asyncio.ensure_future(made.refresh())
    await until(lambda: cards.reads == 1)
    others = [asyncio.ensure_future(made.refresh()) for _ in range(5)]
    await asyncio.sleep(0)
    go.set()
    await first
    for other in others:
        await other
    assert cards.reads == 2


async def test_a_driver_that_is_lost_in_the_middle_is_unknown_and_the_total_stays() -> None:
    clock, cards = (
        FakeClock(),
        Cards(card(energy_j=0.0, power_w=50.0, mem_total_mib=8, mem_used_mib=2)),
    )
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda s: cards.change(energy_j=50 * s))
    cards.before = lost
    await clock.advance(5)
    snapshot = await made.refresh()
    [gpu] = snapshot.gpus
    assert (gpu.problem, gpu.power_w, gpu.mem_used_mib, gpu.mem_total_mib) == (
        "the driver is gone", None, None, 8,
    )  # fmt: skip
    assert snapshot.gpu_energy_j is not None
    assert snapshot.gpu_energy_j >= 250
    assert snapshot.meters[0].state == Availability(ok=False, detail="the driver is gone")
    cards.before = lambda: None
    cards.change(energy_j=10.0)  # loaded anew, it counts from 0
    await clock.advance(60)
    assert (await made.refresh()).gpu_energy_j >= snapshot.gpu_energy_j  # type: ignore[operator]
    assert made.snapshot().gpus[0].problem is None
    assert made.snapshot().meters[0].state == Availability(ok=True)


async def test_one_card_of_two_that_fails_costs_the_other_nothing() -> None:
    clock = FakeClock()
    cards = Cards(card(0, energy_j=0.0), card(1, energy_j=0.0))
    made = monitor(clock, cards)
    await made.look()
    await made.refresh()
    await clock.advance(1)
    cards.change(0, energy_j=None, problem="fallen off the bus")
    cards.change(1, energy_j=40.0)
    snapshot = await made.refresh()
    assert snapshot.gpu_energy_j == 40
    assert snapshot.meters[0].state.ok
    assert snapshot.meters[0].state.warnings == ("Card 0: fallen off the bus",)


async def test_a_driver_that_hangs_costs_one_thread_and_comes_back() -> None:
    clock, cards, go = FakeClock(), Cards(card(energy_j=0.0)), threading.Event()
    zones = Zones(package=0.0)
    made = monitor(clock, cards, zones, read_limit_s=0.05)
    await made.look()
    await made.refresh()
    cards.before = lambda: [go.wait(10), None][1]
    threads = threading.active_count()
    for n in range(1, 6):
        await clock.advance(1)
        zones.joules = {"package": 10.0 * n}
        snapshot = await made.refresh()
        assert snapshot.gpus[0].problem == "cards doesn't answer"
        assert snapshot.cpu_energy_j == 10 * n
    assert (cards.reads, threading.active_count()) == (2, threads + 1)
    go.set()
    with anyio.fail_after(5):
        while (await made.refresh()).gpus[0].problem is not None:
            await anyio.sleep(0.01)


async def test_what_is_not_there_yet_is_looked_for_again() -> None:
    clock, cards = FakeClock(), Cards(card(power_w=10.0))
    cards.state = Availability(ok=False, detail="no driver", hint="install it")
    made = monitor(clock, cards)
    snapshot = await made.fresh()
    assert (snapshot.gpus, snapshot.meters[0].state.hint) == ((), "install it")
    cards.state = Availability(ok=True)
    await clock.advance(29)
    assert (await made.fresh()).gpus == ()
    await clock.advance(1)
    assert len((await made.fresh()).gpus) == 1


async def test_the_total_is_carried_on_marked_and_not_taken_back() -> None:
    clock, cards = FakeClock(), Cards(card(energy_j=0.0, power_w=100.0))
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda s: cards.change(energy_j=100 * s))
    await clock.advance(4)
    snapshot = made.snapshot()
    assert (snapshot.gpu_energy_j, snapshot.extrapolated) == (900, True)
    cards.change(energy_j=600.0)
    snapshot = await made.refresh()
    assert (snapshot.gpu_energy_j, snapshot.extrapolated) == (900, False)


async def test_two_overlapping_requests_add_up_to_the_meter() -> None:
    clock = FakeClock()
    cards, zones = Cards(card(energy_j=0.0)), Zones(package=0.0)
    made = monitor(clock, cards, zones)

    def use_energy(gpu_w: float, cpu_w: float, seconds: float) -> None:
        cards.change(energy_j=(cards.gpus[0].energy_j or 0) + gpu_w * seconds)
        zones.joules["package"] += cpu_w * seconds

    async def tick(gpu_w: float, cpu_w: float, seconds: float = 0.5) -> None:
        await clock.advance(seconds)
        use_energy(gpu_w, cpu_w, seconds)
        await made.refresh()

    await learned(clock, made, idle=lambda s: use_energy(20, 10, s))
    before = cards.gpus[0].energy_j or 0, zones.joules["package"]
    one, two, shares = Answer(), Answer(), dict[str, Share]()
    first = made.ledger.begin(one)
    assert first is not None
    await tick(220, 30)
    one.pieces = 10
    second = made.ledger.begin(two)
    assert second is not None
    await clock.advance(0.25)
    use_energy(320, 50, 0.25)
    one.pieces, two.pieces = 20, 5
    so_far = first.so_far()
    first.end(20, lambda share: shares.update(first=share))
    await tick(320, 50, 0.25)
    assert second.so_far().mark == "estimated"
    await tick(320, 40)
    second.end(9, lambda share: shares.update(second=share))
    assert "second" not in shares
    await tick(20, 10)
    seconds = 0.5 + 0.5 + 0.5 + 0.5
    gpu = (cards.gpus[0].energy_j or 0) - before[0] - 20 * seconds
    cpu = zones.joules["package"] - before[1] - 10 * seconds
    a, b = shares["first"], shares["second"]
    assert (a.gpu_j or 0) + (b.gpu_j or 0) == pytest.approx(gpu)
    assert (a.cpu_j or 0) + (b.cpu_j or 0) == pytest.approx(cpu)
    assert (a.mark, b.mark) == ("apportioned", "apportioned")
    assert min(a.gpu_j or 0, b.gpu_j or 0, a.cpu_j or 0, b.cpu_j or 0) > 0
    assert a.tok_per_j(20) == pytest.approx(20 / (a.energy_j or 0), rel=1e-3)
    assert so_far.mark == "estimated"
    assert so_far.energy_j == pytest.approx(a.energy_j, rel=0.5)


async def test_a_request_pays_for_the_cards_that_its_model_sits_on() -> None:
    clock, shares = FakeClock(), dict[str, Share]()
    cards, zones = Cards(card(0, energy_j=0.0), card(1, energy_j=0.0)), Zones(package=0.0)
    made = monitor(clock, cards, zones)
    await learned(clock, made, idle=lambda _: None)
    asked = {"a": {"cards0"}, "b": {"cards1"}, "anywhere": None}
    for name, where in asked.items():
        use = made.ledger.begin(Answer(), where)
        assert use is not None
        await clock.advance(0.5)
        cards.change(0, energy_j=(cards.gpus[0].energy_j or 0) + 100)
        cards.change(1, energy_j=(cards.gpus[1].energy_j or 0) + 30)  # a game's, say
        zones.joules["package"] += 7
        use.end(5, lambda share, name=name: shares.update({name: share}))
        await made.refresh()
    told = {name: (share.gpu_j, share.cpu_j) for name, share in shares.items()}
    assert told == {"a": (100, 7), "b": (30, 7), "anywhere": (130, 7)}


async def test_one_request_alone_is_measured() -> None:
    clock, cards, shares = FakeClock(), Cards(card(energy_j=0.0)), list[Share]()
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda s: cards.change(energy_j=20 * s))
    use = made.ledger.begin(Answer())
    assert use is not None
    await clock.advance(1)
    cards.change(energy_j=320.0)
    use.end(10, shares.append)
    await made.refresh()
    assert shares == [Share(gpu_j=200, cpu_j=None, mark="measured")]


async def test_power_over_time_and_an_unknown_idle_draw_are_estimates() -> None:
    clock, cards, shares = FakeClock(), Cards(card(power_w=120.0)), list[Share]()
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda s: cards.change(power_w=20.0))
    use = made.ledger.begin(Answer())
    assert use is not None
    cards.change(power_w=220.0)
    await made.refresh()
    await clock.advance(1)
    await made.refresh()
    use.end(10, shares.append)
    await clock.advance(0.5)
    await made.refresh()
    assert [share.mark for share in shares] == ["estimated"]

    counted = Cards(card(energy_j=0.0))
    made = monitor(clock, counted)
    await made.look()
    await made.refresh()
    use = made.ledger.begin(Answer())
    assert use is not None
    await clock.advance(1)
    counted.change(energy_j=100.0)
    use.end(None, shares.append)
    await made.refresh()
    assert shares[1] == Share(gpu_j=100, mark="estimated")


async def test_a_short_answer_has_no_figure_yet_and_its_record_has() -> None:
    clock, cards, shares = FakeClock(), Cards(card(energy_j=0.0)), list[Share]()
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda s: cards.change(energy_j=20 * s))
    use = made.ledger.begin(Answer())
    assert use is not None
    await clock.advance(0.1)
    assert use.so_far() == Share()
    use.end(2, shares.append)
    await clock.advance(0.4)
    cards.change(energy_j=150.0)
    await made.refresh()
    assert shares == [Share(gpu_j=40, mark="measured")]


async def test_a_figure_for_now_is_carried_on_from_the_last_reading() -> None:
    clock, cards = FakeClock(), Cards(card(energy_j=0.0))
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda _: None)
    use = made.ledger.begin(Answer())
    assert use is not None
    await clock.advance(1)
    cards.change(energy_j=200.0)
    await made.refresh()
    assert use.so_far() == Share(gpu_j=200, mark="estimated")
    await clock.advance(0.5)
    assert use.so_far() == Share(gpu_j=300, mark="estimated")


async def test_who_ended_early_made_its_tokens_in_less_time() -> None:
    clock, cards, shares = FakeClock(), Cards(card(energy_j=0.0)), dict[str, Share]()
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda _: None)
    long, short = made.ledger.begin(Answer()), made.ledger.begin(Answer())
    assert long is not None
    assert short is not None
    await clock.advance(0.5)
    short.end(10, lambda share: shares.update(short=share))
    await clock.advance(0.5)
    long.end(10, lambda share: shares.update(long=share))
    cards.change(energy_j=120.0)
    await made.refresh()
    # Of the first 60 J each has 15 by time; of the rest one of them made two tokens of three.
    assert {name: share.gpu_j for name, share in shares.items()} == {"short": 35, "long": 85}


async def losing(clock: FakeClock, shares: list[Share]) -> Monitor:
    """A request has ended, and the meter was lost before its last reading."""
    cards = Cards(card(energy_j=0.0))
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda s: cards.change(energy_j=20 * s))
    use = made.ledger.begin(Answer())
    assert use is not None
    await clock.advance(1)
    cards.change(energy_j=320.0)
    await made.refresh()
    cards.before = lost
    await clock.advance(0.1)
    use.end(5, shares.append)
    await clock.advance(0.4)
    await made.refresh()
    assert shares == []
    return made


async def test_a_record_waits_a_second_at_most_for_a_meter_that_is_lost() -> None:
    clock, shares = FakeClock(), list[Share]()
    made = await losing(clock, shares)
    await clock.advance(0.6)
    await made.refresh()
    assert shares == [Share(gpu_j=200, mark="estimated")]
    assert not made.ledger.busy


async def test_no_record_waits_for_a_long_interval() -> None:
    clock, shares = FakeClock(), list[Share]()
    cards = Cards(card(energy_j=0.0))
    made = monitor(clock, cards, active_interval_s=60.0)
    await learned(clock, made, idle=lambda _: None)
    async with running(made):
        for _ in range(5):
            await clock.advance(1)  # the first readings
            await asyncio.sleep(0.01)
        use = made.ledger.begin(Answer())
        assert use is not None
        await asyncio.sleep(0.05)  # a reading, in its thread
        await clock.advance(3)
        cards.change(energy_j=100.0)
        use.end(5, shares.append)
        await clock.advance(1)
        with anyio.fail_after(5):
            await until(lambda: bool(shares))
        assert clock.monotonic() < 20


async def test_at_the_end_of_the_daemon_a_record_gets_what_is_known() -> None:
    shares = list[Share]()
    made = await losing(FakeClock(), shares)
    await made.aclose()
    assert shares == [Share(gpu_j=200, mark="estimated")]
    assert made.ledger.begin(Answer()) is None


async def test_who_ends_after_the_last_reading_is_told_what_is_known() -> None:
    clock, cards, shares = FakeClock(), Cards(card(energy_j=0.0)), list[Share]()
    made = monitor(clock, cards)
    await learned(clock, made, idle=lambda _: None)
    use = made.ledger.begin(Answer())
    assert use is not None
    await clock.advance(1)
    cards.change(energy_j=200.0)
    await made.refresh()
    await made.aclose()
    assert shares == []
    use.end(5, shares.append)
    assert shares == [Share(gpu_j=200, mark="estimated")]


async def test_who_gave_up_waiting_leaves_no_driver_that_hangs() -> None:
    clock, cards, go = FakeClock(), Cards(card(power_w=5.0)), threading.Event()
    made = monitor(clock, cards)
    await made.look()
    cards.before = lambda: [go.wait(5), None][1]
    with anyio.move_on_after(0.05):
        await made.refresh()
    again = asyncio.ensure_future(made.refresh())
    await asyncio.sleep(0.01)
    go.set()
    assert [gpu.problem for gpu in (await again).gpus] == [None]


async def test_a_plugin_that_reads_nonsense_is_a_problem_and_no_crash() -> None:
    clock, cards, zones = FakeClock(), Cards(card(energy_j="much")), Zones(package=1.0)
    made = monitor(clock, cards, zones)
    await made.look()
    for n in range(3):
        await clock.advance(1)
        zones.joules = {"package": 5.0 * n}
        snapshot = await made.refresh()
    assert snapshot.cpu_energy_j == 10
    assert "TypeError" in str(snapshot.meters[0].state.detail)


async def test_over_a_suspend_power_tells_nothing_and_the_counter_all() -> None:
    clock, cards, zones = FakeClock(), Cards(card(power_w=200.0)), Zones(package=0.0)
    made, shares = monitor(clock, cards, zones), list[Share]()
    await learned(clock, made, idle=lambda s: zones.joules.update(package=10 * s))
    use = made.ledger.begin(Answer())
    assert use is not None
    await clock.advance(3600)
    zones.joules["package"] += 100_000
    use.end(1, shares.append)
    snapshot = await made.refresh()
    assert (snapshot.gpu_energy_j, snapshot.cpu_energy_j) == (1000, 100_050)
    assert shares == [Share(gpu_j=None, cpu_j=64_000, mark="estimated")]


async def test_what_a_reading_changed_is_told() -> None:
    told = []
    clock, cards = FakeClock(), Cards(card(power_w=5.0))
    made = Monitor({"cards": cards}, {}, clock=clock, changed=told.append)
    await made.fresh()
    assert [attrs.asdict(gpu)["power_w"] for gpu in told[0].gpus] == [5.0]
