"""The backend that Cerberus knows: files on disk, engines over them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import attrs

from cerberus_core.errors import CerberusError, LoadFailed, ModelNotFound, Unavailable
from cerberus_core.interfaces import Backend, PluginSetup
from cerberus_core.platform import in_daemon_thread
from cerberus_core.values import (
    USUAL_WIRES,
    Availability,
    Endpoint,
    Estimate,
    Gone,
    LoadPlan,
    LoadProgress,
    ModelInfo,
    PullProgress,
)

from .engines import Binary, Embedded, Engine, Kind, Launch, find_binary, start
from .engines.launch import default_threads
from .estimate import estimate
from .library import Found, Library, SharedScan
from .refusals import explain
from .settings import Settings, ours_among

_BINARY_ONLY = "The embedded engine takes none; a `llama-server` does: plugins.llamacpp.binary."


class LlamaCpp(Backend):
    """One engine process for each loaded model."""

    name = "llamacpp"

    def __init__(self, setup: PluginSetup, settings: Settings) -> None:
        self._settings = settings
        self._models_dir = setup.models_dir
        self._logs_dir = setup.logs_dir / "llamacpp"
        folders = [Path(folder).expanduser() for folder in settings.folders]
        self._folders = folders
        self._library = Library([setup.models_dir, *folders])
        self._scan = SharedScan(self._library)
        self._kind: Kind | None = None
        self._engines: dict[str, Engine] = {}

    async def available(self) -> Availability:
        warnings: tuple[str, ...] = ()
        if self._folders:
            warnings = await in_daemon_thread(lambda: _missing(self._folders))
        try:
            kind = await self._engine_kind()
        except Unavailable as error:
            return Availability(ok=False, detail=error.message, hint=error.hint, warnings=warnings)
        if isinstance(kind, Embedded) and self._settings.extra_args:
            warnings += (
                "plugins.llamacpp.extra_args: the embedded engine takes none; "
                "a `llama-server` does",
            )
        return Availability(ok=True, detail=kind.label, warnings=warnings)

    async def list(self) -> Sequence[ModelInfo]:
        return [found.info() for found in (await self._scan()).values()]

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        engine = self._engines.get(model.name)
        if engine is None or not engine.alive:
            found = await self._find(model)
            kind = await self._engine_kind()
            threads = self._settings.threads
            if threads is None:
                threads = await asyncio.to_thread(default_threads)
            models = self._scan.last
            for setting, why in _wrong(plan, models).items():
                raise LoadFailed(f'models."{model.id}".{setting} is not possible: {why}')
            template = await _template(model, plan)
            launch = self._launch(found, _draft(models, plan), template, model, plan, threads)
            engine = await start(
                kind, launch, self._settings.stall_s, lambda: report(LoadProgress())
            )
            self._engines[model.name] = engine
        return Endpoint(
            base_url=f"{engine.url}/v1",
            model=model.id,
            headers=dict(engine.headers),
            backend=self.name,
            ctx=engine.ctx,
            wires=USUAL_WIRES | {"rerank"} if "rerank" in model.capabilities else USUAL_WIRES,
            system_first=engine.system_first,
            stream_to_cancel=True,
        )

    async def estimate(self, model: ModelInfo, plan: LoadPlan) -> Estimate | None:
        # As it was listed: nothing is read for it.
        found = self._scan.last.get(model.name)
        if found is None or found.problem is not None:
            return None
        whole = self.resolved(plan)
        return estimate(
            found,
            context=_context(found, whole) * (whole.parallel or 1),
            gpu_layers=whole.gpu_layers,
            cache_type_k=plan.cache_type_k,
            cache_type_v=plan.cache_type_v,
            draft=_draft(self._scan.last, plan),
        )

    def processes(self, model: ModelInfo) -> Sequence[int]:
        engine = self._engines.get(model.name)
        return () if engine is None or engine.pid is None else (engine.pid,)

    def resolved(self, plan: LoadPlan) -> LoadPlan:
        own = self._settings
        return attrs.evolve(
            plan,
            context=plan.context or own.context,
            parallel=plan.parallel or own.parallel,
            gpu_layers=own.gpu_layers if plan.gpu_layers is None else plan.gpu_layers,
            extra_args=(*own.extra_args, *(plan.extra_args or ())) or None,
        )

    def ignores(self, plan: LoadPlan) -> Mapping[str, str]:
        told = _wrong(plan, self._scan.last)
        if isinstance(self._kind, Embedded):
            names = [name for name in ("devices", "extra_args") if name in plan.asked()]
            told = dict.fromkeys(names, _BINARY_ONLY) | told
        return told

    async def unload(self, model: ModelInfo) -> None:
        engine = self._engines.get(model.name)
        if engine is not None:
            await engine.stop(self._settings.stop_grace_s)
            self._engines.pop(model.name, None)

    async def gone(self, model: ModelInfo) -> Gone:
        engine = self._engines.get(model.name)
        if engine is None:
            await asyncio.Event().wait()
            raise AssertionError("unreachable")
        why = await engine.gone()
        if self._engines.get(model.name) is engine:
            del self._engines[model.name]
        return Gone(why)

    def explain(self, model: ModelInfo, status: int, body: bytes) -> CerberusError | None:
        return explain(model, body)

    async def pull(self, ref: str, report: Callable[[PullProgress], None]) -> ModelInfo:
        from .pull import pull

        path = await pull(ref, self._models_dir, report)
        for found in (await self._scan(fresh=True)).values():
            if path in found.shards:
                return found.info()
        raise Unavailable(f"{path} was fetched and is not there any more")

    async def remove(self, model: ModelInfo) -> None:
        from .removal import remove

        models = await self._scan(fresh=True)
        found = models.get(model.name)
        if found is None:
            raise _its_file_is_gone(model)
        await asyncio.to_thread(remove, found, list(models.values()), self._library.roots)

    async def aclose(self) -> None:
        self._scan.close()
        engines, self._engines = list(self._engines.values()), {}
        await asyncio.gather(*[engine.stop(self._settings.stop_grace_s) for engine in engines])

    async def _find(self, model: ModelInfo) -> Found:
        found = (await self._scan()).get(model.name)
        if found is None:
            raise _its_file_is_gone(model)
        if found.problem is not None:
            raise LoadFailed(f"{model.id} can't be used: {found.problem}")
        return found

    async def _engine_kind(self) -> Kind:
        if self._kind is None:
            self._kind = await asyncio.to_thread(_choose, self._settings)
        return self._kind

    def _launch(
        self,
        found: Found,
        draft: Found | None,
        template: Path | None,
        model: ModelInfo,
        plan: LoadPlan,
        threads: int,
    ) -> Launch:
        whole = self.resolved(plan)
        return Launch(
            model=found.path,
            projector=found.projector,
            alias=model.id,
            context=_context(found, whole),
            parallel=whole.parallel or 1,
            threads=threads,
            gpu_layers=whole.gpu_layers,
            cache_type_k=plan.cache_type_k,
            cache_type_v=plan.cache_type_v,
            tensor_split=plan.tensor_split or (),
            main_gpu=plan.main_gpu,
            devices=plan.devices or (),
            draft=draft.path if draft is not None else None,
            draft_tokens=plan.draft_tokens,
            chat_template=template,
            extra_args=whole.extra_args or (),
            pooling=found.pooling,
            log=self._logs_dir / f"{model.name.replace('/', '_')}.log",
        )


def _context(found: Found, whole: LoadPlan) -> int:
    context = whole.context or 1
    return min(context, found.ctx) if found.ctx else context


def _draft(models: Mapping[str, Found], plan: LoadPlan) -> Found | None:
    """The model that guesses ahead, by its name or id."""
    if plan.draft is None:
        return None
    found = models.get(plan.draft) or models.get(plan.draft.removeprefix(f"{LlamaCpp.name}/"))
    return found if found is not None and found.problem is None else None


async def _template(model: ModelInfo, plan: LoadPlan) -> Path | None:
    """The file of the plan's chat template. Raises `LoadFailed` where it can't be read."""
    if plan.chat_template is None:
        return None
    path = Path(plan.chat_template)
    try:
        text = await asyncio.to_thread(path.read_text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        text, why = "", f"can't be read: {why}"
    else:
        why = "is empty"
    if not text.strip():
        raise LoadFailed(
            f'models."{model.id}".chat_template: {path} {why}',
            hint="Correct the path, or leave it out: then the model's own template is used.",
        )
    return path


def _wrong(plan: LoadPlan, models: Mapping[str, Found]) -> dict[str, str]:
    """What of a plan can't be, whatever the engine: setting → why."""
    told = {}
    flag = ours_among(plan.extra_args or ())
    if flag is not None:
        told["extra_args"] = f"{flag} is set by Cerberus itself."
    if plan.draft is not None and _draft(models, plan) is None:
        told["draft"] = f"There is no model {plan.draft!r} here that can be used."
    return told


def _its_file_is_gone(model: ModelInfo) -> ModelNotFound:
    return ModelNotFound(f"{model.id}: its file is gone", hint="`cerberus models ls`")


def _missing(folders: Sequence[Path]) -> tuple[str, ...]:
    return tuple(
        f"plugins.llamacpp.folders: {folder} is no folder"
        for folder in folders
        if not folder.is_dir()
    )


def _choose(settings: Settings) -> Kind:
    if settings.engine != "embedded":
        binary = find_binary(settings.binary)
        if binary is not None:
            return Binary(binary)
        if settings.engine == "binary":
            raise Unavailable(
                "no llama-server was found on PATH",
                hint='Set `binary` under [plugins.llamacpp], or engine = "auto"',
            )
    if find_spec("xllamacpp") is None:
        raise Unavailable(
            "there is neither a llama-server nor the embedded engine",
            hint="Install the package xllamacpp beside this plugin, or put a llama-server on PATH.",
        )
    return Embedded()
