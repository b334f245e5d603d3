"""The backend that Cerberus knows: LM Studio's models, kept in its memory by our rules."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import anyio

from cerberus_core.errors import CerberusError, LoadFailed, ModelNotFound, Unavailable
from cerberus_core.interfaces import Backend
from cerberus_core.platform import Clock, SystemClock
from cerberus_core.servers import ASK_LIMIT_S, Refused, is_local
from cerberus_core.values import (
    Availability,
    Endpoint,
    Estimate,
    Gone,
    LoadPlan,
    LoadProgress,
    ModelInfo,
)

from . import lms
from .reading import Instance, Listed, estimated_mib, listed_v0, listed_v1, to_mib
from .server import Server
from .settings import Settings

WATCH_S = 5.0
"""How often a loaded model is looked for, in seconds."""
ESTIMATE_LIMIT_S = 5.0
UNLOAD_LIMIT_S = 30.0


class LMStudio(Backend):
    """One LM Studio. Models that others loaded there are `ready` in the list."""

    name = "lmstudio"

    def __init__(
        self, url: str, settings: Settings, lms: str | None, clock: Clock | None = None
    ) -> None:
        """`lms`: the path of that program, of the LM Studio on this machine."""
        self._local = is_local(url)
        self._settings = settings
        self._server = Server(url, local=self._local)
        self._lms = lms if self._local else None
        self._clock = clock or SystemClock()
        self._v1 = True
        self._loaded: dict[str, str] = {}
        """Key → the instance that we loaded or took over."""
        self._estimates: dict[tuple[str, int | None, int | None], int] = {}
        """What `lms` told, in MiB, by key, size and context."""

    async def available(self) -> Availability:
        try:
            await self._list()
        except CerberusError as error:
            return Availability(ok=False, detail=error.message, hint=error.hint)
        version = "0.4.0 or later" if self._v1 else "older than 0.4.0: loads go through `lms`"
        return Availability(ok=True, detail=f"LM Studio {version}")

    async def list(self) -> Sequence[ModelInfo]:
        return [self._info(row) for row in await self._list()]

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        # Listed first: a second load would be a second instance.
        instance = await self._instance(model)
        if instance is None:
            try:
                instance = await self._start(model, plan)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._leave_nothing(model)
                raise
        self._loaded[model.name] = instance.id
        return Endpoint(
            base_url=f"{self._server.url}/v1",
            model=instance.id,
            headers=self._headers(),
            local=self._local,
            backend=self.name,
            ctx=instance.ctx,
            stream_to_cancel=self._v1,  # an older one may tell no token counts in a stream
        )

    def ignores(self, plan: LoadPlan) -> Mapping[str, str]:
        able = {"context"} if self._v1 else {"context", "parallel"}
        return {name: why for name, why in super().ignores(plan).items() if name not in able}

    async def unload(self, model: ModelInfo) -> None:
        try:
            instance = await self._instance(model)
            if instance is not None:
                await self._stop(instance)
        except Unavailable as error:
            if error.code != "lmstudio_down":  # down: nothing is loaded
                raise
        self._loaded.pop(model.name, None)

    async def gone(self, model: ModelInfo) -> Gone:
        while True:
            await self._clock.sleep(WATCH_S)
            try:
                if await self._instance(model) is None:
                    return Gone(f"LM Studio dropped {model.name} from its memory", crashed=False)
            except Unavailable as error:
                if error.code == "lmstudio_down":
                    return Gone(error.message)
                # Slow, or restarted: the next look tells.

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        if not self._local:
            return None
        key = (model.name, model.size_mib, plan.context)
        if key not in self._estimates and self._lms is not None:
            wish = ["load", model.name, "--estimate-only", *_context(plan)]
            try:
                told = estimated_mib(await lms.run(self._lms, wish, limit_s=ESTIMATE_LIMIT_S))
            except (LoadFailed, Unavailable):
                told = None  # an older one doesn't know the flag
            if told is not None:
                self._estimates[key] = told
        return await self.guess(model, plan)

    async def guess(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        if not self._local:
            return None
        told = self._estimates.get((model.name, model.size_mib, plan.context), model.size_mib)
        return None if told is None else Estimate(weights_mib=told)

    async def aclose(self) -> None:
        await self._server.aclose()

    async def _list(self) -> Sequence[Listed]:
        headers = self._headers()
        for path, read in (("/api/v1/models", listed_v1), ("/api/v0/models", listed_v0)):
            try:
                rows = read(await self._server.ask(path, headers=headers))
            except Refused:
                continue
            if rows is not None:
                self._v1 = read is listed_v1
                return rows
        raise Unavailable(
            f"What runs at {self._server.url} has neither /api/v1 nor /api/v0",
            hint="LM Studio has them since 0.3.6; does plugins.lmstudio.base_url name one?",
        )

    async def _instance(self, model: ModelInfo) -> Instance | None:
        """Ours where it is there, else any."""
        ours = self._loaded.get(model.name, model.name)
        for row in await self._list():
            # `/api/v0` lists what is loaded by its instance's id alone.
            there = [one for one in row.instances if row.key == model.name or one.id == ours]
            if there:
                return next((one for one in there if one.id == ours), there[0])
        return None

    async def _start(self, model: ModelInfo, plan: LoadPlan) -> Instance:
        if not self._v1:
            wish = ["load", model.name, "--identifier", model.name, "--yes", *_context(plan)]
            if plan.parallel is not None:
                wish += ["--parallel", str(plan.parallel)]
            await lms.run(self._lms, wish, limit_s=None)
            there = await self._instance(model)
            return there or Instance(id=model.name, ctx=plan.context)
        body = {"model": model.name, "echo_load_config": True}
        if plan.context is not None:
            body["context_length"] = plan.context
        try:
            told = await self._server.ask(
                "/api/v1/models/load", body, headers=self._headers(), limit_s=None
            )
        except Refused as error:
            if error.status == 404:
                raise ModelNotFound(
                    f"LM Studio has no {model.name} any more: {error}", hint="`cerberus models ls`"
                ) from None
            raise LoadFailed(
                f"LM Studio could not load {model.name}: {error}", hint="`lms log stream`"
            ) from None
        # The documents have had both names.
        name = told.get("instance_id") or told.get("model_instance_id")
        config = told.get("load_config")
        ctx = config.get("context_length") if isinstance(config, dict) else None
        if isinstance(name, str):
            return Instance(id=name, ctx=ctx if isinstance(ctx, int) else plan.context)
        there = await self._instance(model)
        if there is None:
            raise LoadFailed(
                f"LM Studio did not say where {model.name} is, and does not list it as loaded",
                hint="`lms ps`",
            )
        return there

    async def _stop(self, instance: Instance) -> None:
        if not self._v1:
            await lms.run(self._lms, ["unload", instance.id], limit_s=UNLOAD_LIMIT_S)
            return
        try:
            await self._server.ask(
                "/api/v1/models/unload",
                {"instance_id": instance.id},
                headers=self._headers(),
                limit_s=UNLOAD_LIMIT_S,
            )
        except Refused as error:
            if error.status != 404:  # it has left meanwhile
                raise Unavailable(f"LM Studio did not unload {instance.id}: {error}") from None

    async def _leave_nothing(self, model: ModelInfo) -> None:
        """After a load that was broken off: it may have come to its end unheard."""
        try:
            async with asyncio.timeout(ASK_LIMIT_S):
                await self.unload(model)
        except (CerberusError, TimeoutError):
            return

    def _headers(self) -> dict[str, str]:
        try:
            key = self._settings.key()
        except KeyError as error:
            raise Unavailable(
                "The API token of LM Studio is not set",
                hint=f"Set {error.args[0]} in the environment of `cerberus serve`.",
            ) from None
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def _info(self, row: Listed) -> ModelInfo:
        return ModelInfo(
            id=f"{self.name}/{row.key}",
            backend=self.name,
            name=row.key,
            local=self._local,
            size_mib=None if row.size is None else to_mib(row.size),
            ctx=row.ctx,
            capabilities=row.capabilities,
            detail=row.detail,
            state="ready" if row.instances else "unloaded",
        )


def _context(plan: LoadPlan) -> Sequence[str]:
    return [] if plan.context is None else ["--context-length", str(plan.context)]
