"""The backends' lists, cached and merged."""

import asyncio
from collections.abc import Iterable, Mapping

import anyio
import structlog

from cerberus_core.errors import CerberusError
from cerberus_core.platform import Clock
from cerberus_core.values import ModelInfo, Problem

from .foreign import Foreign

PATIENCE_S = 0.3
"""Seconds that a request waits for a backend that failed to answer last time."""
LIST_LIMIT_S = 10.0
"""Seconds one backend may take to list its models; its last list is used after that."""

_log = structlog.get_logger("engines")


class Catalog:
    """Asks every backend at most once in `ttl_s` seconds, all at the same time.

    A backend that fails or is too slow keeps its last list, and `problems`
    says why; `warnings` are of those that work. One that is known to be slow
    or down is waited for `PATIENCE_S` and no longer: its answer comes in when
    it comes.
    """

    def __init__(self, backends: Mapping[str, Foreign], *, clock: Clock, ttl_s: float) -> None:
        self.problems: dict[str, Problem] = {}
        self.warnings: dict[str, tuple[str, ...]] = {}
        self.ttl_s = ttl_s
        self._backends = backends
        self._clock = clock
        self._lists: dict[str, list[ModelInfo]] = {}
        self._of: dict[str, float] = {}
        self._asked_at: float | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def models(self, *, fresh: bool) -> dict[str, ModelInfo]:
        """All models by id. `fresh`: as they are after this call, not before."""
        if fresh:
            # Who was asked before may not know yet what has just happened.
            await self._wait([name for name in self._asking if name not in self.problems], None)
        now = self._clock.monotonic()
        if fresh or self._asked_at is None or now - self._asked_at >= self.ttl_s:
            self._asked_at = now
            for backend in self._backends.values():
                if backend.name not in self._asking:
                    task = asyncio.get_running_loop().create_task(self._ask(backend))
                    self._asking[backend.name] = task
        await self._wait([name for name in self._asking if name not in self.problems], None)
        await self._wait(list(self._asking), PATIENCE_S)
        return {model.id: model for models in self._lists.values() for model in models}

    def listed(self, backend: str) -> bool:
        """Whether it has ever said which models it has."""
        return backend in self._lists

    def of(self, backend: str) -> float:
        """When its list was asked for; what happened later is not in it."""
        return self._of.get(backend, 0.0)

    def forget(self, names: Iterable[str]) -> None:
        """What these backends said; all are asked anew."""
        for name in names:
            if task := self._asking.pop(name, None):
                task.cancel()
            for said in (self._lists, self.problems, self.warnings):
                said.pop(name, None)
        self._asked_at = None

    async def aclose(self) -> None:
        """Ask no more."""
        for task in self._asking.values():
            task.cancel()
        await self._wait(list(self._asking), None)

    async def _wait(self, names: list[str], timeout: float | None) -> None:
        tasks = [self._asking[name] for name in names if name in self._asking]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)

    async def _ask(self, backend: Foreign) -> None:
        asked = self._clock.monotonic()
        try:
            with anyio.fail_after(LIST_LIMIT_S):
                models = await backend.list()
                self.warnings[backend.name] = await _warnings(backend)
        except TimeoutError:
            self._problem(
                backend,
                f"did not list its models within {LIST_LIMIT_S:.0f} s",
                "What it listed last is still shown. Is what it asks very slow, or down?",
            )
        except CerberusError as error:
            self._problem(backend, error.message, error.hint)
        except Exception as error:  # noqa: BLE001 - foreign code must not hide the others' models
            self._problem(
                backend,
                f"{type(error).__name__}: {error}",
                "What it listed last is still shown. Report it to the plugin's authors: "
                "`cerberus plugins` names it.",
            )
        else:
            self._lists[backend.name] = models
            self._of[backend.name] = asked
            self.problems.pop(backend.name, None)
        finally:
            if self._asking.get(backend.name) is asyncio.current_task():
                del self._asking[backend.name]

    def _problem(self, backend: Foreign, what: str, hint: str | None) -> None:
        problem = Problem(backend=backend.name, what=what, hint=hint)
        if self.problems.get(backend.name) != problem:
            _log.warning("backend_list_failed", backend=backend.name, problem=what)
        self.problems[backend.name] = problem


async def _warnings(backend: Foreign) -> tuple[str, ...]:
    try:
        availability = await backend.available()
    except Exception as error:  # noqa: BLE001 - foreign code; its models are there all the same
        return (f"available() raised {type(error).__name__}: {error}",)
    if availability.ok:
        return availability.warnings
    words = [word for word in (availability.detail, availability.hint) if word]
    return (". ".join(words) or "can't work here", *availability.warnings)
