"""The backends' lists, cached and merged."""

from collections.abc import Mapping

import anyio
import structlog

from cerberus_core.errors import CerberusError
from cerberus_core.interfaces import Backend
from cerberus_core.platform import Clock
from cerberus_core.values import ModelInfo

LIST_LIMIT_S = 10.0
"""Seconds one backend may take to list its models; its last list is used after that."""

_log = structlog.get_logger("engines")


class Catalog:
    """Asks every backend at most once in `ttl_s` seconds, all at the same time.

    A backend that fails or is too slow keeps its last list, and `problems`
    says why.
    """

    def __init__(self, backends: Mapping[str, Backend], *, clock: Clock, ttl_s: float) -> None:
        self.problems: dict[str, str] = {}
        self._backends = backends
        self._clock = clock
        self._ttl_s = ttl_s
        self._lists: dict[str, list[ModelInfo]] = {}
        self._asked_at: float | None = None
        self._lock = anyio.Lock()

    async def models(self, *, fresh: bool) -> dict[str, ModelInfo] | None:
        """All models by id, or None if the last answer still holds."""
        came = self._clock.monotonic()
        if not fresh and not self._stale(came):
            return None
        async with self._lock:
            if self._asked_at is not None and self._asked_at > came:
                return self._merged()  # somebody asked while we waited
            if not fresh and not self._stale(self._clock.monotonic()):
                return self._merged()
            async with anyio.create_task_group() as tasks:
                for backend in self._backends.values():
                    tasks.start_soon(self._ask, backend)
            self._asked_at = self._clock.monotonic()
            return self._merged()

    def _stale(self, now: float) -> bool:
        return self._asked_at is None or now - self._asked_at >= self._ttl_s

    def _merged(self) -> dict[str, ModelInfo]:
        return {model.id: model for models in self._lists.values() for model in models}

    async def _ask(self, backend: Backend) -> None:
        try:
            with anyio.fail_after(LIST_LIMIT_S):
                models = list(await backend.list())
        except TimeoutError:
            self._problem(backend, f"did not list its models within {LIST_LIMIT_S:.0f} s")
        except CerberusError as error:
            self._problem(backend, error.message)
        except Exception as error:  # noqa: BLE001 - foreign code must not hide the others' models
            self._problem(backend, f"{type(error).__name__}: {error}")
        else:
            self._lists[backend.name] = models
            self.problems.pop(backend.name, None)

    def _problem(self, backend: Backend, text: str) -> None:
        if self.problems.get(backend.name) != text:
            _log.warning("backend_list_failed", backend=backend.name, problem=text)
        self.problems[backend.name] = text
