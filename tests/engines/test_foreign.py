"""Backends that lie, raise, hang or exit: it costs their own models, and nobody else anything."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs
import pytest

from cerberus_core.engines import Footprints, Manager, Policies, RoomRules, foreign
from cerberus_core.engines.residency import Pool
from cerberus_core.errors import CerberusError
from cerberus_core.testing import FakeClock
from cerberus_core.values import Estimate, ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio


class Other(ToyBackend):
    name = "other"

    async def list(self) -> list[ModelInfo]:
        return [
            attrs.evolve(m, id=f"other/{m.name}", backend="other") for m in await super().list()
        ]


class Memory:
    budget_mib = None

    async def look(self, *, fresh: bool = False) -> list[Pool]:
        return [Pool(name="host", total=1000, free=1000, budget=1000)]

    async def taken(self, pids: Any) -> dict[str, int]:
        return {"host": len(pids)}


@asynccontextmanager
async def both(clock: FakeClock, odd: ToyBackend) -> AsyncIterator[Manager]:
    """An odd backend beside a good one, which works to the end."""
    manager = Manager(
        {"toy": odd, "other": Other()},
        policies=Policies(),
        clock=clock,
        pools=Memory(),  # type: ignore[arg-type]
        footprints=Footprints(),
        rules=RoomRules(settle_s=0),
    )
    with anyio.fail_after(10):
        async with manager.running():
            yield manager
            (await manager.acquire("other/a")).release()
            await manager.unload("other/a")


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def returns(value: Any) -> Callable[..., Any]:
    async def method(*_: Any) -> Any:
        return value

    return method


def raises(error: BaseException) -> Callable[..., Any]:
    async def method(*_: Any) -> Any:
        raise error

    return method


async def cancels_itself(*_: Any) -> Any:
    task = asyncio.ensure_future(asyncio.Event().wait())
    task.cancel()
    await task


@pytest.mark.parametrize(
    "load",
    [returns("there"), returns(None), raises(SystemExit(3)), raises(GeneratorExit()),
     raises(KeyboardInterrupt()), raises(ZeroDivisionError()), cancels_itself],
    ids=["text", "None", "exit", "generator", "interrupt", "error", "cancel"],
)  # fmt: skip
async def test_a_load_that_is_none_fails_alone(clock: FakeClock, load: Any) -> None:
    odd = ToyBackend()
    odd.load = load  # type: ignore[method-assign]
    async with both(clock, odd) as manager:
        with pytest.raises(CerberusError, match=r"could not be loaded|cancelled its own work"):
            await manager.acquire("toy/a")
        assert (await manager.model("toy/a")).state == "failed"


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("gone", returns(None)),
        ("gone", returns("dropped")),
        ("gone", raises(SystemExit())),
        ("taken", returns({"host": "much"})),
        ("taken", returns({"host": -5})),
        ("taken", returns({"host": 10**30})),
        ("taken", returns({"gpu": None, "host": 5})),
        ("taken", returns([1])),
        ("taken", raises(SystemExit())),
        ("processes", lambda *_: [-1]),
        ("processes", lambda *_: ["x"]),
        ("processes", lambda *_: None),
        ("estimate", returns(5)),
        ("estimate", returns(Estimate(weights_mib=-7))),
        ("estimate", returns(Estimate(weights_mib="x"))),  # type: ignore[arg-type]
        ("guess", returns(5)),
        ("resolved", lambda *_: None),
    ],
)
async def test_an_odd_answer_is_as_none(clock: FakeClock, what: str, value: Any) -> None:
    odd = ToyBackend()
    setattr(odd, what, value)
    async with both(clock, odd) as manager:
        (await manager.acquire("toy/a")).release()
        await settle()
        assert (await manager.fits()).keys() == {"toy/a", "toy/b", "other/a", "other/b"}
        assert (await manager.plan("toy/a")).model == "toy/a"


@pytest.mark.parametrize(
    "rows",
    [["x"], None, 7, [ModelInfo(id="elsewhere/m", backend="elsewhere", name="m")]],
    ids=["text", "None", "number", "another's"],
)
async def test_a_list_that_is_none_is_that_backends_problem(clock: FakeClock, rows: Any) -> None:
    odd = ToyBackend()
    odd.list = returns(rows)  # type: ignore[method-assign]
    async with both(clock, odd) as manager:
        assert [model.id for model in await manager.models()] == ["other/a", "other/b"]
        assert "toy" in manager.problems


async def test_a_name_that_nobody_could_write_down_is_left_out(clock: FakeClock) -> None:
    odd = ToyBackend()
    bad = ModelInfo(id="toy/\udc80", backend="toy", name="\udc80")
    odd.list = returns([*await odd.list(), bad])  # type: ignore[method-assign]
    async with both(clock, odd) as manager:
        assert [m.id for m in await manager.models() if m.backend == "toy"] == ["toy/a", "toy/b"]


async def test_questions_and_unloads_that_never_end_are_given_up(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("ASK_LIMIT_S", "UNLOAD_LIMIT_S", "CLOSE_LIMIT_S"):
        monkeypatch.setattr(foreign, limit, 0.01)
    odd = ToyBackend()

    async def hang(*_: Any) -> Any:
        await asyncio.Event().wait()

    for what in ("estimate", "taken", "unload", "aclose"):
        setattr(odd, what, hang)
    async with both(clock, odd) as manager:
        (await manager.acquire("toy/a")).release()
        with pytest.raises(CerberusError, match="did not leave"):
            await manager.unload("toy/a")


async def test_the_end_does_not_wait_for_one_that_never_leaves(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cerberus_core.engines.life.STOP_LIMIT_S", 0.01)
    odd = ToyBackend()

    async def hang(*_: Any) -> Any:
        await asyncio.Event().wait()

    odd.unload = hang  # type: ignore[method-assign]
    with anyio.fail_after(5):
        async with both(clock, odd) as manager:
            (await manager.acquire("toy/a")).release()
            await manager.unload("toy/a", wait=False)
            await settle()


async def test_one_that_does_not_close_keeps_no_other_from_it(clock: FakeClock) -> None:
    odd, good = ToyBackend(), Other()
    odd.aclose = raises(RuntimeError("boom"))  # type: ignore[method-assign]
    async with Manager({"toy": odd, "other": good}, policies=Policies(), clock=clock).running():
        pass
    assert good.closed
