"""The backend that Cerberus knows: Ollama's models, kept in its memory by our rules."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import anyio

from cerberus_core.errors import CerberusError, LoadFailed, ModelNotFound, Unavailable
from cerberus_core.interfaces import Backend
from cerberus_core.platform import Clock, SystemClock
from cerberus_core.servers import Refused, is_local
from cerberus_core.values import (
    Availability,
    Endpoint,
    Estimate,
    Gone,
    LoadPlan,
    LoadProgress,
    ModelInfo,
    PullProgress,
)

from .reading import Facts, Installed, Loaded, facts, installed, loaded, same_model, to_mib
from .server import Server

WATCH_S = 5.0
"""How often a loaded model is looked for, in seconds."""
UNLOAD_POLL_S = 0.1
UNLOAD_LIMIT_S = 30.0
"""Seconds that Ollama may take to give a model's memory back; requests of others hold it."""
SHOWS_AT_ONCE = 4
FOREVER = -1
"""A `keep_alive`: nobody but Cerberus drops the model."""
DEFAULT_CTX = 4096
"""Ollama's own, for estimates, where neither model nor setting says more."""

_OLLAMAS_OWN = {
    "context": "Ollama has it for each model in its Modelfile (`PARAMETER num_ctx`), "
    "for all in OLLAMA_CONTEXT_LENGTH.",
    "parallel": "Ollama has it for all models: OLLAMA_NUM_PARALLEL.",
    "cache_type_k": "Ollama has it for all models: OLLAMA_KV_CACHE_TYPE.",
    "cache_type_v": "Ollama has it for all models: OLLAMA_KV_CACHE_TYPE.",
}
"""Settings that Ollama knows and takes elsewhere."""


class Ollama(Backend):
    """One Ollama. Models that others loaded there are `ready` in the list."""

    name = "ollama"

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._local = is_local(url)
        self._server = Server(url, local=self._local)
        self._clock = clock or SystemClock()
        self._facts: dict[str, tuple[str, Facts]] = {}

    async def available(self) -> Availability:
        try:
            told = await self._server.ask("/api/version")
        except (CerberusError, Refused) as error:
            hint = error.hint if isinstance(error, CerberusError) else None
            return Availability(ok=False, detail=str(error), hint=hint)
        return Availability(ok=True, detail=f"Ollama {told.get('version', '')}".strip())

    async def list(self) -> Sequence[ModelInfo]:
        rows = installed(await self._ask("/api/tags"))
        here = await self._loaded()
        await self._learn([row for row in rows if not row.remote])
        return [self._info(row, here.get(row.name)) for row in rows]

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        ctx = model.ctx
        if model.managed:
            try:
                await self._keep(model, plan.gpu_layers)
                there = (await self._loaded()).get(model.name)
            except Refused as error:
                raise _failed(model, error) from None
            except BaseException:
                await self._leave_nothing(model)
                raise
            ctx = there.ctx if there is not None else None
        return Endpoint(
            base_url=f"{self._server.url}/v1",
            model=model.name,
            local=model.local,
            backend=self.name,
            ctx=ctx,
            stream_to_cancel=True,
        )

    def ignores(self, plan: LoadPlan) -> Mapping[str, str]:
        told = {name: why for name, why in super().ignores(plan).items() if name != "gpu_layers"}
        return told | {name: _OLLAMAS_OWN[name] for name in told if name in _OLLAMAS_OWN}

    async def unload(self, model: ModelInfo) -> None:
        try:
            async with asyncio.timeout(UNLOAD_LIMIT_S):
                await self._drop(model)
                while model.name in await self._loaded():
                    await self._clock.sleep(UNLOAD_POLL_S)
        except Unavailable as error:
            if error.code != "ollama_down":  # down: nothing is loaded
                raise
        except TimeoutError:
            raise Unavailable(
                f"Ollama still has {model.name} in memory after {UNLOAD_LIMIT_S:.0f} s",
                hint="Another client of Ollama may use it; `ollama ps` shows it.",
            ) from None

    async def gone(self, model: ModelInfo) -> Gone:
        while True:
            await self._clock.sleep(WATCH_S)
            try:
                there = (await self._loaded()).get(model.name)
            except Unavailable as error:
                if error.code == "ollama_down":
                    return Gone(error.message)
                continue  # slow, or restarted: the next look tells
            if there is None:
                return Gone(f"Ollama dropped {model.name} from its memory", crashed=False)
            if there.leaves_soon(self._clock.now()):
                try:
                    await self._keep(model)
                except (Refused, Unavailable) as error:
                    return Gone(f"Ollama does not keep {model.name}: {error}")

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        if not self._local or not model.managed or model.size_mib is None:
            return None
        known = self._known(model.name)
        context = known.num_ctx or min(DEFAULT_CTX, model.ctx or DEFAULT_CTX)
        cache = to_mib(context * (known.cache_bytes_per_token or 0))
        on_gpu = plan.gpu_layers != 0
        return Estimate(weights_mib=model.size_mib, cache_mib=cache, on_gpu=on_gpu)

    async def taken(self, model: ModelInfo) -> Mapping[str, int] | None:
        if not self._local or not model.managed:
            return None
        there = (await self._loaded()).get(model.name)
        return None if there is None else there.taken()

    async def pull(self, ref: str, report: Callable[[PullProgress], None]) -> ModelInfo:
        from .pull import pull

        await pull(self._server, ref, report)
        for model in await self.list():
            if same_model(ref, model.name):
                return model
        raise Unavailable(f"Ollama pulled {ref} and does not list it", hint="`ollama list`")

    async def remove(self, model: ModelInfo) -> None:
        try:
            await self._server.delete("/api/delete", {"model": model.name})
        except Refused as error:
            raise Unavailable(f"Ollama did not delete {model.name}: {error}") from None

    async def aclose(self) -> None:
        await self._server.aclose()

    async def _ask(self, path: str) -> dict[str, object]:
        try:
            return await self._server.ask(path)
        except Refused as error:
            raise Unavailable(
                f"Ollama at {self._server.url} refused {path}: {error}",
                hint="Is plugins.ollama.base_url the address of an Ollama?",
            ) from None

    async def _loaded(self) -> dict[str, Loaded]:
        return loaded(await self._ask("/api/ps"))

    async def _keep(self, model: ModelInfo, gpu_layers: int | None = None) -> None:
        """Load it, or only renew that it stays. Ollama judges for itself when a load stalls.

        Of Ollama's options this one alone outlives the first request of `/v1`, which
        names none: where another differs, Ollama loads the model anew.
        """
        if model.capabilities & {"chat", "completion"}:
            path = "/api/generate"
            body: dict[str, object] = {"model": model.name, "stream": False}
        else:
            path, body = "/api/embed", {"model": model.name, "input": ""}
        if gpu_layers is not None:
            body["options"] = {"num_gpu": gpu_layers}
        await self._server.ask(path, {**body, "keep_alive": FOREVER}, limit_s=None)

    async def _drop(self, model: ModelInfo) -> None:
        body = {"model": model.name, "keep_alive": 0, "stream": False}
        try:
            await self._server.ask("/api/generate", body)
        except Refused as error:
            if error.status != 404:  # it was deleted meanwhile
                raise Unavailable(f"Ollama did not unload {model.name}: {error}") from None

    async def _leave_nothing(self, model: ModelInfo) -> None:
        """After a load that was broken off: it may have come to its end unheard."""
        with anyio.CancelScope(shield=True):
            try:
                await self._drop(model)
            except Unavailable:
                return

    async def _learn(self, rows: Sequence[Installed]) -> None:
        """Ask once for each model that is new or changed what it is."""
        turn = asyncio.Semaphore(SHOWS_AT_ONCE)

        async def ask(row: Installed) -> None:
            async with turn:
                try:
                    told = await self._server.ask("/api/show", {"model": row.name})
                except (Refused, Unavailable):
                    return  # its context and vision stay unknown until the next list
            self._facts[row.name] = (row.digest, facts(told))

        known = {name: digest for name, (digest, _) in self._facts.items()}
        await asyncio.gather(*[ask(row) for row in rows if known.get(row.name) != row.digest])

    def _known(self, name: str) -> Facts:
        return self._facts[name][1] if name in self._facts else Facts()

    def _info(self, row: Installed, there: Loaded | None) -> ModelInfo:
        known = Facts() if row.remote else self._known(row.name)
        usual = ModelInfo(id="", backend="", name="").capabilities
        return ModelInfo(
            id=f"{self.name}/{row.name}",
            backend=self.name,
            name=row.name,
            local=self._local and not row.remote,
            managed=not row.remote,
            size_mib=None if row.size is None or row.remote else to_mib(row.size),
            ctx=known.ctx,
            capabilities=row.capabilities or known.capabilities or usual,
            detail=row.detail,
            state="ready" if there is not None or row.remote else "unloaded",
        )


def _failed(model: ModelInfo, error: Refused) -> CerberusError:
    if error.status == 404:
        return ModelNotFound(f"Ollama has no {model.name} any more", hint="`cerberus models ls`")
    return LoadFailed(
        f"Ollama could not load {model.name}: {error}", hint="Its log says more about it."
    )
