"""One named endpoint. It is simply there: nothing is loaded, nothing unloaded."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cerberus_core.errors import LoadFailed, Unavailable
from cerberus_core.interfaces import Backend
from cerberus_core.values import Availability, Endpoint, LoadPlan, LoadProgress, ModelInfo

if TYPE_CHECKING:
    from .settings import EndpointSettings

LIST_LIMIT_S = 5.0
KEEP_LIST_S = 300.0
"""How long a discovered list is used before the endpoint is asked again, in seconds."""
_CONTEXT_KEYS = ("context_length", "max_model_len", "context_window", "max_context_length")


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
        self._discovered_at = 0.0

    async def available(self) -> Availability:
        try:
            self._settings.key()
        except KeyError:
            return Availability(ok=False, detail="its key is not set", hint=self._key_hint())
        return Availability(ok=True, detail=self._base_url)

    async def list(self) -> Sequence[ModelInfo]:
        if self._settings.models:
            return [self._model(name, {}) for name in self._settings.models]
        now = self._monotonic()
        if self._discovered is None or now - self._discovered_at > KEEP_LIST_S:
            self._discovered = await self._discover()
            self._discovered_at = now
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
        )

    async def _discover(self) -> Sequence[ModelInfo]:
        import httpx

        try:
            async with httpx.AsyncClient(timeout=LIST_LIMIT_S) as client:
                answer = await client.get(f"{self._base_url}/models", headers=self._headers())
        except httpx.HTTPError as error:
            raise Unavailable(
                f"no answer from {self._base_url}: {str(error) or type(error).__name__}",
                hint="Is it running? Its models can also be listed by name in the settings.",
            ) from None
        if answer.status_code in (401, 403):
            raise Unavailable(f"refused the key ({answer.status_code})", hint=self._key_hint())
        try:
            rows = answer.raise_for_status().json()["data"]
            return [self._model(row["id"], row) for row in rows if _is_name(row["id"])]
        except (httpx.HTTPStatusError, ValueError, KeyError, TypeError):
            raise Unavailable(
                f"{self._base_url}/models answered {answer.status_code} with no model list",
                hint="Does `base_url` end in /v1? Else name the models in the settings.",
            ) from None

    def _model(self, name: str, row: dict[str, Any]) -> ModelInfo:
        ctx = next((row[key] for key in _CONTEXT_KEYS if isinstance(row.get(key), int)), None)
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
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        return headers

    def _key_hint(self) -> str:
        path = f"plugins.openai.endpoints.{self.name}"
        if self._settings.api_key_env is not None:
            return f"Set {self._settings.api_key_env} in the environment of `cerberus serve`."
        return f"Set `{path}.api_key` or `{path}.api_key_env` in config.toml."


def _is_name(value: object) -> bool:
    """A name that can be shown and asked for: no control characters, not endless."""
    return isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable()
