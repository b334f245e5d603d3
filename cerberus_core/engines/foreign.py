"""A backend behind a fence: what it raises, answers or never answers costs itself alone."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import structlog

from cerberus_core.errors import CerberusError, LoadFailed, Unavailable
from cerberus_core.interfaces import Backend
from cerberus_core.values import (
    Availability,
    Endpoint,
    Estimate,
    Gone,
    LoadPlan,
    LoadProgress,
    ModelInfo,
)

ASK_LIMIT_S = 10.0
"""Seconds for a question that should be quick."""
UNLOAD_LIMIT_S = 40.0
"""Seconds that a model may take to leave; after that it counts as still there."""
CLOSE_LIMIT_S = 30.0
MOST_MIB = 1 << 40

T = TypeVar("T")
_log = structlog.get_logger("engines")


class Fault(Exception):
    """A backend did what no backend may."""


class Foreign:
    """The methods of a `Backend` that engines use, each under a limit and with its answer checked.

    Raises what a backend may raise, `Fault`, and `Unavailable` where it took too long.
    """

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self._backend = backend

    async def available(self) -> Availability:
        told = await self._call(self._backend.available())
        return _checked(told, Availability, "available()")

    async def list(self) -> list[ModelInfo]:
        """Without those whose names nobody could write down."""
        models: list[ModelInfo] = []
        for row in await self._call(self._backend.list()):
            model = _checked(row, ModelInfo, "list()")
            if model.backend != self.name:
                raise Fault(f"list() has {model.id!r} of a backend {model.backend!r}")
            if _is_text(model.id) and _is_text(model.name):
                models.append(model)
            else:
                _log.warning("model_unnamable", backend=self.name, model=ascii(model.id))
        return models

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        endpoint = await self._call(self._backend.load(model, plan, report))
        try:
            return _checked(endpoint, Endpoint, "load()")
        except Fault:
            await self.unload(model)
            raise

    async def unload(self, model: ModelInfo) -> None:
        words = f"{model.id} did not leave within {UNLOAD_LIMIT_S:.0f} s"
        await self._within(UNLOAD_LIMIT_S, self._backend.unload(model), words)

    async def gone(self, model: ModelInfo) -> Gone:
        return _checked(await self._call(self._backend.gone(model)), Gone, "gone()")

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        return await self._estimated(self._backend.estimate(model, plan), "estimate()")

    async def guess(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        return await self._estimated(self._backend.guess(model, plan), "guess()")

    async def taken(self, model: ModelInfo) -> Mapping[str, int] | None:
        words = f"{self.name} did not tell what {model.id} takes"
        told = await self._within(ASK_LIMIT_S, self._backend.taken(model), words)
        if told is None:
            return None
        if not (
            isinstance(told, Mapping)
            and told.keys() <= {"host", "gpu"}
            and all(_is_mib(each) for each in told.values())
        ):
            raise Fault(f"taken() returned {str(told)[:80]}")
        return told

    def processes(self, model: ModelInfo) -> Sequence[int]:
        pids = self._backend.processes(model)
        if not all(isinstance(pid, int) and 0 < pid < 1 << 31 for pid in pids):
            raise Fault(f"processes() returned {str(pids)[:80]}")
        return pids

    def resolved(self, plan: LoadPlan) -> LoadPlan:
        return _checked(self._backend.resolved(plan), LoadPlan, "resolved()")

    def ignores(self, plan: LoadPlan) -> Mapping[str, str]:
        return self._backend.ignores(plan)

    def explain(self, model: ModelInfo, status: int, body: bytes) -> CerberusError | None:
        return self._backend.explain(model, status, body)

    async def remove(self, model: ModelInfo) -> None:
        await self._call(self._backend.remove(model))

    async def aclose(self) -> None:
        """Never raises."""
        try:
            await self._within(CLOSE_LIMIT_S, self._backend.aclose(), "it did not close")
        except Exception as error:  # noqa: BLE001 - the others have to be closed too
            _log.warning("backend_not_closed", backend=self.name, error=str(error))

    async def _estimated(self, asked: Awaitable[Estimate | None], what: str) -> Estimate | None:
        words = f"{self.name} did not estimate within {ASK_LIMIT_S:.0f} s"
        told = await self._within(ASK_LIMIT_S, asked, words)
        if told is None:
            return None
        estimate = _checked(told, Estimate, what)
        parts = (estimate.weights_mib, estimate.cache_mib, estimate.extra_mib)
        if not all(_is_mib(part) for part in parts):
            raise Fault(f"{what} returned {estimate}")
        return estimate

    async def _within(self, limit_s: float, work: Awaitable[T], words: str) -> T:
        try:
            async with asyncio.timeout(limit_s):
                return await self._call(work)
        except TimeoutError:
            raise Unavailable(words, hint="Its log may tell why; is its server busy?") from None

    async def _call(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except Exception:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LoadFailed(f"the {self.name} backend cancelled its own work") from None
        except BaseException as error:  # noqa: BLE001 - an exit of the plugin's is none of ours
            raise Fault(f"{type(error).__name__}: {error}") from None


def _checked(value: object, kind: type[T], what: str) -> T:
    if not isinstance(value, kind):
        raise Fault(f"{what} returned {type(value).__name__}, and no {kind.__name__}")
    return value


def _is_mib(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST_MIB


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        return False
