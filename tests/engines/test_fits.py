"""What fits this machine now, told for a whole list."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import anyio
import attrs
import pytest

from cerberus_core.engines import Footprints, Manager, ModelPolicy, Policies, Pools, memory
from cerberus_core.engines.residency import Footprint, Pool
from cerberus_core.errors import NoRoom
from cerberus_core.testing import FakeClock
from cerberus_core.values import Estimate, LoadPlan, ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio


class Sized(ToyBackend):
    """Models `toy/100`, `toy/600` …, named after what they take; `x…` tells nothing."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = list(names)

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        self.calls["estimate"] += 1
        digits = model.name.partition("-")[0]
        return Estimate(weights_mib=int(digits)) if digits.isdecimal() else None


class House:
    """A machine of 1000 MiB."""

    def __init__(self, backend: Sized) -> None:
        self.backend = backend
        self.looks = 0

    async def look(self, *, fresh: bool = False) -> Sequence[Pool]:
        self.looks += 1
        used = sum(int(model.removeprefix("toy/").partition("-")[0]) for model in self.loaded)
        return [Pool(name="host", total=1000, free=1000 - used, budget=1000)]

    async def taken(self, pids: Sequence[int]) -> Footprint:
        return {}

    @property
    def loaded(self) -> set[str]:
        return self.backend.loaded


def manager_of(
    house: House, clock: FakeClock, footprints: Footprints | None = None, **policies: Any
) -> Manager:
    return Manager(
        {"toy": house.backend},
        policies=Policies(**policies),
        clock=clock,
        pools=cast(Pools, house),
        footprints=footprints,
    )


async def test_each_model_says_whether_it_fits_and_after_what(clock: FakeClock) -> None:
    house = House(Sized(["300", "400", "500", "800", "1200", "x"]))
    async with manager_of(house, clock).running() as manager:
        await manager.load("toy/400")
        busy = await manager.acquire("toy/300")
        fits = await manager.fits()
        assert {name: fit.says for name, fit in fits.items()} == {
            "toy/300": "loaded", "toy/400": "loaded", "toy/500": "after",
            "toy/800": "waits", "toy/1200": "no", "toy/x": "unknown",
        }  # fmt: skip
        assert fits["toy/500"].others == ["toy/400"]
        assert (fits["toy/300"].takes_mib, fits["toy/500"].takes_mib) == (300, 500)
        assert fits["toy/800"].others == ["toy/300"]
        assert (fits["toy/1200"].short_mib, fits["toy/x"].takes_mib) == (200, None)
        busy.release()
        await manager.unload("toy/400")
        await manager.unload("toy/300")
        fits = await manager.fits()
        assert {fits[f"toy/{name}"].says for name in ("300", "400", "500", "800")} == {"yes"}


async def test_two_hundred_models_cost_one_look_at_the_memory(clock: FakeClock) -> None:
    house = House(Sized([f"{number}-m" for number in range(1, 201)]))
    async with manager_of(house, clock).running() as manager:
        await manager.models()
        before = house.looks
        assert len(await manager.fits()) == 200
        assert house.looks == before + 1


async def test_a_model_larger_than_memory_is_loaded_where_the_settings_insist(
    clock: FakeClock,
) -> None:
    house = House(Sized(["1200"]))
    async with manager_of(house, clock).running() as manager:
        with pytest.raises(NoRoom):
            await manager.load("toy/1200")
    insists = {"toy/1200": ModelPolicy(ttl_s=0, oversize=True)}
    async with manager_of(house, clock, models=insists).running() as manager:
        await manager.models()
        fit = (await manager.fits())["toy/1200"]
        assert (fit.says, fit.short_mib) == ("oversize", 200)
        assert (await manager.load("toy/1200")).state == "ready"


async def test_a_pinned_model_in_the_way_and_a_load_that_waits_are_told(clock: FakeClock) -> None:
    house = House(Sized(["300", "400", "900"]))
    pinned = ModelPolicy(ttl_s=0, pinned=True, group="g")
    async with manager_of(house, clock, models={"toy/300": pinned}).running() as manager:
        await manager.load("toy/300")
        fit = (await manager.fits())["toy/400"]
        assert (fit.says, fit.short_mib) == ("no", None)
        assert fit.why == "toy/300 is pinned and may not live beside it"
    house = House(Sized(["300", "900"]))
    async with manager_of(house, clock).running() as manager:
        busy = await manager.acquire("toy/300")
        await manager.load("toy/900", wait=False)
        while (await manager.fits())["toy/900"].says != "waits":
            await asyncio.sleep(0)
        busy.release()


async def test_a_backend_that_hangs_or_breaks_leaves_its_models_unknown(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Sized):
        async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
            raise RuntimeError("boom")

    class Hanging(Sized):
        async def guess(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
            await asyncio.Event().wait()
            return None

    monkeypatch.setattr(memory, "GUESS_LIMIT_S", 0.01)
    with anyio.fail_after(5):  # any other question may take longer
        for backend in (Broken(["300"]), Hanging(["300"])):
            async with manager_of(House(backend), clock).running() as manager:
                await manager.models()
                assert (await manager.fits())["toy/300"].says == "unknown"


async def test_what_was_learned_is_not_believed_of_a_plan_that_the_backend_resolves_anew(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(Sized(["300"]))
    footprints = Footprints()
    footprints.learn_taken("toy/300", LoadPlan(context=4096), {"host": 700}, clock.now(), used=True)
    own = {"context": 4096}
    monkeypatch.setattr(
        house.backend, "resolved", lambda plan: attrs.evolve(plan, **own), raising=True
    )
    async with manager_of(house, clock, footprints).running() as manager:
        await manager.models()
        assert (await manager.fits())["toy/300"].takes_mib == 700
        own["context"] = 8192  # as after a change of the plugin's settings
        assert (await manager.fits())["toy/300"].takes_mib == 300
        monkeypatch.setattr(house.backend, "resolved", lambda plan: 1 / 0)
        assert (await manager.fits())["toy/300"].takes_mib == 300
