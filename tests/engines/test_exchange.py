"""Backends in the place of others while the daemon runs."""

import asyncio

import anyio
import attrs
import pytest

from cerberus_core.engines import Manager, Policies
from cerberus_core.testing import FakeClock
from cerberus_core.values import Endpoint, ModelInfo
from tests.engines.conftest import ToyBackend

pytestmark = pytest.mark.anyio


class Served(ToyBackend):
    """Its models are simply there; it says so once `gate` is open."""

    async def list(self) -> list[ModelInfo]:
        models = await super().list()
        if self.gate is not None:
            await self.gate.wait()
        return [attrs.evolve(model, managed=False, state="ready") for model in models]

    async def load(self, model: ModelInfo, *_: object) -> Endpoint:
        return Endpoint(base_url="http://127.0.0.1:1/v1", model=model.id, backend="toy")


def manager_of(backend: Served, clock: FakeClock) -> Manager:
    return Manager({"toy": backend}, policies=Policies(), clock=clock, list_ttl_s=5.0)


def owners() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("model")]


async def ids(manager: Manager) -> list[str]:
    return [model.id for model in await manager.models()]


async def test_what_a_new_backend_has_is_listed_at_once(clock: FakeClock) -> None:
    async with manager_of(Served("a"), clock).running() as manager:
        assert await ids(manager) == ["toy/a"]
        manager.exchange(["toy"], {"toy": Served("b")})
        assert await ids(manager) == ["toy/b"]


async def test_the_question_to_the_old_backend_does_not_pass_for_that_to_the_new(
    clock: FakeClock,
) -> None:
    old, new = Served("a"), Served("b")
    old.gate, new.gate = asyncio.Event(), asyncio.Event()
    async with manager_of(old, clock).running() as manager:
        early = asyncio.create_task(ids(manager))
        await clock.advance(0)

        async def meanwhile() -> list[str]:
            await clock.advance(0)  # the old one has been let go of
            asked = asyncio.create_task(ids(manager))
            await clock.advance(0)
            new.gate.set()  # type: ignore[union-attr]
            return await asked

        second = asyncio.create_task(meanwhile())
        manager.exchange(["toy"], {"toy": new})
        assert await ids(manager) == ["toy/b"]
        assert await second == ["toy/b"]
        assert new.calls["list"] == 1
        await early


async def test_a_model_that_was_in_use_at_the_exchange_is_forgotten_after_it(
    clock: FakeClock,
) -> None:
    async with manager_of(Served("a"), clock).running() as manager:
        lease = await manager.acquire("toy/a")
        manager.exchange(["toy"], {"toy": Served("b")})
        await manager.models()
        assert sorted(owners()) == ["model toy/a", "model toy/b"]
        lease.release()
        await manager.models()
        with anyio.fail_after(5):
            while owners() != ["model toy/b"]:
                await asyncio.sleep(0)
