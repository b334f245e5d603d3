"""One named endpoint. It is simply there: nothing is loaded, nothing unloaded."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cerberus_core.errors import LoadFailed, Unavailable
from cerberus_core.interfaces import Backend
from cerberus_core.values import Availability, Endpoint, LoadPlan, LoadProgress, ModelInfo

if TYPE_CHECKING:
    from .settings import EndpointSettings

ANTHROPIC_VERSION = "2023-06-01"
"""Of the Messages wire; a header of the settings may name another."""
LIST_LIMIT_S = 5.0
"""Seconds for the whole of a list, from the connection to its last byte."""
KEEP_LIST_S = 300.0
"""How long a discovered list is used before the endpoint is asked again, in seconds."""
KEEP_FAILURE_S = 5.0
"""How long a failure to list is told again before the endpoint is asked again, in seconds."""
_CONTEXT_KEYS = ("context_length", "max_model_len", "context_window", "max_context_length")
_MOST_TOKENS = 1 << 40


class OpenAIBackend(Backend):
    """Model ids are `<endpoint>/<name at the endpoint>`."""

    def __init__(
        self,
        name: str,
        settings: "EndpointSettings",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._settings = settings
        self._base_url = settings.base_url.rstrip("/")
        self._monotonic = monotonic
        self._discovered: Sequence[ModelInfo] | None = None
        self._failure: Unavailable | None = None
        self._asked_at = 0.0

    async def available(self) -> Availability:
        try:
            self._settings.key()
        except KeyError:
            return Availability(ok=False, detail="its key is not set", hint=self._key_hint())
        return Availability(ok=True, detail=self._base_url)

    async def list(self) -> Sequence[ModelInfo]:
        if self._settings.models:
            return [self._model(name, {}) for name in self._settings.models]
        age = self._monotonic() - self._asked_at
        if self._failure is not None and age <= KEEP_FAILURE_S:
            raise self._failure
        if self._failure is not None or self._discovered is None or age > KEEP_LIST_S:
            headers = self._headers()
            try:
                self._discovered, self._failure = await self._discover(headers), None
            except Unavailable as error:
                self._failure = error
                raise
            finally:
                self._asked_at = self._monotonic()
        return self._discovered

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        return Endpoint(
            base_url=self._base_url,
            model=model.name,
            headers=self._headers(),
            local=self._settings.is_local(),
            backend=self.name,
            ctx=model.ctx,
            wires=frozenset(self._settings.wires),  # type: ignore[arg-type]
        )

    async def _discover(self, headers: dict[str, str]) -> Sequence[ModelInfo]:
        from .listing import BadList, fetch

        url = f"{self._base_url}/models"
        try:
            status, rows = await fetch(url, headers, limit_s=LIST_LIMIT_S)
        except BadList as error:
            raise Unavailable(
                f"{url} {error}",
                hint="Does `base_url` end in /v1? Else name the models in the settings.",
            ) from None
        except OSError as error:
            raise Unavailable(
                f"no answer from {self._base_url}: {error}",
                hint="Is it running? Its models can also be listed by name in the settings.",
            ) from None
        if status in (401, 403):
            raise Unavailable(f"refused the key ({status})", hint=self._key_hint())
        return [self._model(row["id"], row) for row in rows]

    def _model(self, name: str, row: dict[str, Any]) -> ModelInfo:
        ctx = next((row[key] for key in _CONTEXT_KEYS if _is_size(row.get(key))), None)
        return ModelInfo(
            id=f"{self.name}/{name}",
            backend=self.name,
            name=name,
            local=self._settings.is_local(),
            managed=False,
            ctx=ctx,
            # The wire doesn't tell what a model can do; the endpoint refuses what it can't.
            capabilities=frozenset({"chat", "completion", "embed"}),
            state="ready",
        )

    def _headers(self) -> dict[str, str]:
        try:
            key = self._settings.key()
        except KeyError:
            raise LoadFailed(f"The key of {self.name} is not set", hint=self._key_hint()) from None
        headers = {name.lower(): value for name, value in self._settings.headers.items()}
        if self._speaks_anthropic:
            headers.setdefault("anthropic-version", ANTHROPIC_VERSION)
        if key is not None and self._speaks_anthropic:
            headers["x-api-key"] = key
        elif key is not None:
            headers["authorization"] = f"Bearer {key}"
        return headers

    @property
    def _speaks_anthropic(self) -> bool:
        return "messages" in self._settings.wires and "chat" not in self._settings.wires

    def _key_hint(self) -> str:
        path = f"plugins.openai.endpoints.{self.name}"
        if self._settings.api_key_env is not None:
            return f"Set {self._settings.api_key_env} in the environment of `cerberus serve`."
        return f"Set `{path}.api_key` or `{path}.api_key_env` in config.toml."


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS
