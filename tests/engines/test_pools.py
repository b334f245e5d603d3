"""Cards as pools, and what servers and drivers tell of them."""

import asyncio
import os

import anyio
import pytest

from cerberus_core.engines import Manager, Policies, Pools
from cerberus_core.engines.footprints import lay_out
from cerberus_core.engines.pools import GPU_MARGIN_MIB, gpu_pool, on_gpus, spread
from cerberus_core.engines.residency import Pool
from cerberus_core.testing import FakeClock
from cerberus_core.values import GPU, Estimate
from tests.engines.conftest import ToyBackend
from tests.gpu.cards import Cards, monitor


def card(index: int, **facts: object) -> GPU:
    return GPU(index=index, id=f"id{index}", name="Card", vendor="nvidia", **facts)  # type: ignore[arg-type]


def pool(name: str, budget: int) -> Pool:
    return Pool(name=name, total=budget, free=budget, budget=budget)


HOST = pool("host", 1000)
TWO = [HOST, pool("nvidia0", 300), pool("nvidia1", 100)]


def test_a_card_is_a_pool_where_it_tells_its_memory() -> None:
    told = gpu_pool(card(1, mem_total_mib=8000, mem_used_mib=1000))
    assert told == Pool(name="nvidia1", total=8000, free=7000, budget=8000 - GPU_MARGIN_MIB)
    assert gpu_pool(card(0, mem_total_mib=8000)) is None


def test_memory_on_cards_is_counted_by_process() -> None:
    cards = [card(0, processes={5: 100, 6: 50, 7: 1}), card(1, processes={6: 30, 8: None}), card(2)]
    assert on_gpus(cards, [5, 6, 8]) == {"nvidia0": 150, "nvidia1": 30, "nvidia2": 0}


def test_what_a_server_tells_is_spread_over_the_cards_there_are() -> None:
    assert spread({"host": 10, "gpu": 200}, TWO) == {"host": 10, "nvidia0": 150, "nvidia1": 50}
    assert spread({"host": 10, "gpu": 200}, [HOST]) == {"host": 210}
    assert spread({"gpu": 0}, TWO) == {}


def test_an_estimate_goes_to_the_cards_and_what_is_too_much_to_the_host() -> None:
    assert lay_out(Estimate(weights_mib=200), TWO) == {"nvidia0": 150, "nvidia1": 50}
    assert lay_out(Estimate(weights_mib=500), TWO) == {"nvidia0": 300, "nvidia1": 100, "host": 100}
    assert lay_out(Estimate(weights_mib=200, on_gpu=False), TWO) == {"host": 200}
    assert lay_out(Estimate(weights_mib=200), [HOST]) == {"host": 200}


@pytest.mark.anyio
async def test_a_lease_knows_the_cards_that_its_model_sits_on(
    clock: FakeClock, backend: ToyBackend
) -> None:
    backend.processes = lambda _: [os.getpid()]  # type: ignore[method-assign]
    facts = {"mem_total_mib": 8000, "mem_used_mib": 500}
    cards = Cards(card(0, processes={os.getpid(): 300}, **facts), card(1, processes={}, **facts))
    made = monitor(clock, cards)
    await made.look()
    manager = Manager({"toy": backend}, policies=Policies(), clock=clock, pools=Pools(made))
    with anyio.fail_after(10):
        async with manager.running():
            lease = await manager.acquire("toy/a")
            while lease.cards is None:
                await asyncio.sleep(0)
            assert lease.cards == {"nvidia0"}
            lease.release()
    await made.aclose()


@pytest.mark.anyio
async def test_a_swap_on_a_card_does_not_wait_for_the_next_reading_of_idle_times(
    clock: FakeClock, backend: ToyBackend
) -> None:
    cards = Cards(card(0, mem_total_mib=1000 + GPU_MARGIN_MIB, mem_used_mib=0))
    cards.before = lambda: cards.change(mem_used_mib=400 + 600 * len(backend.loaded))

    async def estimate(*_: object) -> Estimate:
        return Estimate(weights_mib=600)

    backend.estimate = estimate  # type: ignore[method-assign]
    made = monitor(clock, cards, idle_interval_s=60.0)
    await made.look()
    manager = Manager({"toy": backend}, policies=Policies(), clock=clock, pools=Pools(made))
    with anyio.fail_after(5):
        async with manager.running():
            await manager.load("toy/a")
            assert (await made.refresh()).gpus[0].mem_used_mib == 1000
            await manager.load("toy/b")  # while the clock stands
            assert backend.loaded == {"toy/b"}
    await made.aclose()
