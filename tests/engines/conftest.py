"""A backend in this process whose every step the test decides."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cerberus_core.engines import Manager, Policies
from cerberus_core.interfaces import Backend
from cerberus_core.testing import FakeClock
from cerberus_core.values import Endpoint, Gone, LoadPlan, LoadProgress, ModelInfo


class ToyBackend(Backend):
    """Models `toy/a`, `toy/b` …; counts what is done to them."""

    name = "toy"

    def __init__(self, names: str = "ab") -> None:
        self.names = list(names)
        self.calls: Counter[str] = Counter()
        self.loaded: set[str] = set()
        self.gate: asyncio.Event | None = None
        """Loads wait for it where it is set."""
        self.failure: BaseException | None = None
        self.crashes: dict[str, asyncio.Future[Gone]] = {}
        self.plans: list[LoadPlan] = []
        self.closed = False

    async def list(self) -> list[ModelInfo]:
        self.calls["list"] += 1
        return [ModelInfo(id=f"toy/{n}", backend="toy", name=n) for n in self.names]

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        self.calls["load"] += 1
        self.plans.append(plan)
        if self.gate is not None:
            report(LoadProgress(fraction=0.5))
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        assert model.id not in self.loaded, "two engines for one model"
        self.loaded.add(model.id)
        self.crashes[model.id] = asyncio.get_running_loop().create_future()
        return Endpoint(base_url="http://127.0.0.1:1/v1", model=model.id, backend="toy", ctx=512)

    async def unload(self, model: ModelInfo) -> None:
        self.calls["unload"] += 1
        self.loaded.discard(model.id)

    async def gone(self, model: ModelInfo) -> Gone:
        return await asyncio.shield(self.crashes[model.id])

    def crash(self, model_id: str, reason: str = "exit code 1", *, crashed: bool = True) -> None:
        self.loaded.discard(model_id)
        self.crashes[model_id].set_result(Gone(reason, crashed=crashed))

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def backend() -> ToyBackend:
    return ToyBackend()


@pytest.fixture
def start(clock: FakeClock, backend: ToyBackend) -> Callable[..., Any]:
    """`async with start(ttl_s=…) as manager:`"""

    @asynccontextmanager
    async def start(ttl_s: float = 600.0, **policies: Any) -> AsyncIterator[Manager]:
        manager = Manager(
            {"toy": backend},
            policies=Policies(default_ttl_s=ttl_s, **policies),
            clock=clock,
        )
        async with manager.running():
            yield manager

    return start
