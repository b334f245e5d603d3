"""All models of all backends, by name."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import anyio.to_thread
import attrs
import structlog

from cerberus_core.errors import CerberusError, LoadFailed, Unavailable, Unsupported
from cerberus_core.interfaces import Backend
from cerberus_core.platform import Clock
from cerberus_core.values import Fit, LoadPlan, ModelInfo, Notice, Plan, PoolUse, Problem

from .catalog import Catalog
from .footprints import Footprints
from .foreign import Foreign
from .lease import Delay, Lease, Waited
from .life import Life
from .memory import Memory
from .policy import Policies, first_choice, idle_settings, index, not_found, strangers
from .pools import Pools
from .room import RoomRules

_log = structlog.get_logger("engines")


class Manager:
    """Lists, loads and unloads models; `acquire` is what a request calls.

    Used inside `async with manager.running():`; leaving it unloads what was
    loaded and closes the backends.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        *,
        policies: Policies,
        clock: Clock,
        changed: Callable[[ModelInfo], None] = lambda _: None,
        list_ttl_s: float = 5.0,
        pools: Pools | None = None,
        footprints: Footprints | None = None,
        rules: RoomRules | None = None,
    ) -> None:
        """`pools`: the memory there is; None: nobody looks at memory."""
        self._backends = {name: Foreign(backend) for name, backend in backends.items()}
        self._policies = policies
        self._clock = clock
        self._tell = changed
        self._catalog = Catalog(self._backends, clock=clock, ttl_s=list_ttl_s)
        self._lives: dict[str, Life] = {}
        self._parted: list[Life] = []
        self._names: dict[str, str] = {}
        self._listed: dict[str, ModelInfo] | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._memory = Memory(
            self._backends,
            lambda: self._lives,
            pools=pools,
            footprints=footprints or Footprints(),
            rules=rules or RoomRules(),
            clock=clock,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Manager"]:
        """Own the models' tasks until the block ends."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._memory.run)
                try:
                    yield self
                finally:
                    self._tasks = None
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._catalog.aclose()
                for backend in self._backends.values():
                    await backend.aclose()

    def retune(
        self, policies: Policies, rules: RoomRules, *, memory_mib: int | None, list_ttl_s: float
    ) -> None:
        """Other settings from now on. Nothing is loaded for them, and nothing in use leaves."""
        self._policies = policies
        self._catalog.ttl_s = list_ttl_s
        for model_id, life in self._lives.items():
            life.retune(policies.of(model_id))
        self._name_all()
        self._memory.retune(rules, memory_mib)

    def exchange(self, gone: Collection[str], made: Mapping[str, Backend]) -> None:
        """Put the backends `made` in the place of those named `gone`, which manage no model.

        Requests that the old ones answer go on.
        """
        for model_id, life in list(self._lives.items()):
            if life.model.backend in gone:
                life.part()
                self._parted.append(self._lives.pop(model_id))
        for name in gone:
            del self._backends[name]
        self._backends |= {name: Foreign(backend) for name, backend in made.items()}
        self._catalog.forget([*gone, *made])
        self._name_all()
        self._retire_parted()

    @property
    def problems(self) -> dict[str, Problem]:
        """Backend name → why it could not be listed last time."""
        return self._catalog.problems

    def warnings(self) -> list[str]:
        """What `notices` tells, a line each."""
        return [str(notice) for notice in self.notices()]

    def notices(self) -> list[Notice]:
        """What is wrong with backends, and with what the settings say of models."""
        lines = []
        for name, told in self._catalog.warnings.items():
            if name not in self.problems:
                lines += [f"{name}: {line}" for line in told]
        if self._listed is not None:
            lines += strangers(self._policies, self._lives, self._names, self._unlisted())
        return [
            *[Notice(text=f"{p.backend}: {p.what}", hint=p.hint) for p in self.problems.values()],
            *[Notice(text=line) for line in lines],
            *idle_settings(self._policies, self._ignored()),
        ]

    def _ignored(self) -> dict[str, Mapping[str, str]]:
        """Of each listed model with settings, what of them its backend doesn't do."""
        told: dict[str, Mapping[str, str]] = {}
        for model_id, policy in self._policies.models.items():
            life = self._lives.get(model_id)
            if life is not None and policy.plan.asked():
                try:
                    told[model_id] = self._backends[life.model.backend].ignores(policy.plan)
                except Exception as error:  # noqa: BLE001 - foreign code; the others are told
                    _log.warning("backend_fault", model=model_id, error=str(error))
        return told

    def default(self) -> str | None:
        """The model to chat with where nobody named one, of those listed last."""
        return first_choice(self.known(), self._names, self._policies.default)

    def outdated(self) -> dict[str, tuple[LoadPlan, LoadPlan]]:
        """By id, models that were loaded with another plan than is wanted since: both plans."""
        return {
            model_id: (life.plan, life.policy.plan)
            for model_id, life in self._lives.items()
            if life.plan != life.policy.plan
        }

    async def models(self, *, fresh: bool = False) -> list[ModelInfo]:
        """Every model with its state, by id; the backends' lists are at most `list_ttl_s` old."""
        await self._refresh(fresh=fresh)
        return self.known()

    def known(self) -> list[ModelInfo]:
        """Those that were listed last, with their states now. Asks nobody."""
        return [life.info() for _, life in sorted(self._lives.items())]

    async def model(self, name: str) -> ModelInfo:
        """One model by any of its names. Raises `ModelNotFound`."""
        return (await self._find(name)).info()

    def try_acquire(self, name: str, *, in_session: bool = False) -> Lease | None:
        """A lease without waiting, if the model is ready; None otherwise.

        `in_session`: more turns are to come; the model is kept for them for a while.
        """
        model_id = self._names.get(name)
        life = self._lives.get(model_id) if model_id is not None else None
        if life is None or not life.try_enter():
            return None
        assert life.endpoint is not None
        return self._lease(life, None, in_session)

    async def acquire(self, name: str, *, in_session: bool = False) -> Lease:
        """A lease on the model, loaded first if need be. Release it on every path.

        Raises `ModelNotFound`, `LoadFailed`, `Unavailable`.
        """
        lease = self.try_acquire(name, in_session=in_session)
        if lease is not None:
            return lease
        life = await self._find(name)
        self._check_usable(life)
        return self._lease(life, await life.enter(), in_session)

    def fallbacks(self, name: str) -> tuple[str, ...]:
        """The models to ask instead where this one can't answer, in their order."""
        return self._policies.of(self._id_of(name)).fallbacks

    def patience_s(self, name: str) -> float | None:
        """How long a request waits for this model where it has fallbacks; None: as long as it
        takes."""
        return self._policies.of(self._id_of(name)).patience_s

    def delay(self, name: str) -> Delay:
        """What a request for the model would wait for now, as far as that is known."""
        life = self._lives.get(self._names.get(name, ""))
        return life.delay() if life is not None else Delay()

    def _id_of(self, name: str) -> str:
        """Of a model that may not be there at all: its settings are."""
        return self._names.get(name) or self._policies.aliases.get(name, name)

    def peek(self, name: str) -> ModelInfo | None:
        """A model as it is now, of those that were listed; None where there is none."""
        life = self._lives.get(self._names.get(name, ""))
        return life.info() if life is not None else None

    def listed(self, name: str) -> ModelInfo | None:
        """A model as its backend listed it, without its state; None where there is none."""
        life = self._lives.get(self._names.get(name, ""))
        return life.model if life is not None else None

    async def load(self, name: str, *, wait: bool = True) -> ModelInfo:
        """Load a model; without `wait`, only start it."""
        life = await self._find(name)
        self._check_usable(life)
        if wait:
            await life.enter()
            life.leave()
        else:
            life.ask_load()
        return life.info()

    async def preload(self) -> None:
        """List the models, and load those that the settings want at the start."""
        for model in await self.models():
            if model.managed and self._policies.of(model.id).preload and model.problem is None:
                self._lives[model.id].ask_load()

    async def unload(self, name: str, *, wait: bool = True) -> ModelInfo:
        """Unload a model once its requests are done; a load in progress is broken off."""
        life = await self._find(name)
        if not life.model.managed:
            raise Unsupported(
                f"{life.model.id} is served elsewhere; Cerberus neither loads nor unloads it",
                hint="It can be used as it is.",
            )
        if wait:
            await life.unload()
        else:
            life.ask_unload()
        return life.info()

    async def remove(self, name: str) -> None:
        """Delete a model's files. Unloads it first."""
        life = await self._find(name)
        async with life.removed():
            await self._backends[life.model.backend].remove(life.model)
        await self._refresh(fresh=True)

    async def plan(self, name: str) -> Plan:
        """What loading a model would take and do, without doing it."""
        life = await self._find(name)
        self._check_usable(life)
        return await self._memory.plan(life)

    def _lease(self, life: Life, waited: Waited | None, in_session: bool) -> Lease:
        assert life.endpoint is not None
        return Lease(
            endpoint=life.endpoint,
            model=life.model,
            waited=waited,
            hold_s=self._policies.session_hold_s if in_session else 0.0,
            life=life,
        )

    async def fits(self) -> dict[str, Fit]:
        """By id, whether each model could be loaded now; by one look at the memory for all.

        Of those listed last; what is broken or served elsewhere is left out.
        """
        return await self._memory.fits()

    async def pools(self) -> list[PoolUse]:
        """Each memory now, with what the models in it take."""
        return await self._memory.pools()

    @property
    def evictions(self) -> Mapping[str, int]:
        """How often each model had to leave for another."""
        return self._memory.evictions

    def _changed(self, model: ModelInfo) -> None:
        self._memory.changed()
        self._tell(model)

    async def _find(self, name: str) -> Life:
        await self._refresh(fresh=False)
        model_id = self._names.get(name)
        if model_id is None:
            await self._refresh(fresh=True)
            model_id = self._names.get(name)
        if model_id is None:
            raise self._not_found(name)
        return self._lives[model_id]

    def _not_found(self, name: str) -> CerberusError:
        """A model of a backend that couldn't be asked may be there for all we know."""
        asked = self._policies.aliases.get(name, name)
        for backend, problem in self.problems.items():
            if asked.startswith(f"{backend}/"):
                return Unavailable(
                    f"{asked} can't be reached: {backend}: {problem.what}",
                    hint=problem.hint,
                    code="backend_unavailable",
                )
        error = not_found(name, self._names)
        if self.problems and "/" not in name:
            silent = ", ".join(self.problems)
            error.hint = f"{error.hint} Not listed, since they can't be reached: {silent}."
        return error

    def _unlisted(self) -> list[str]:
        return [
            name
            for name in self._backends
            if name in self.problems or not self._catalog.listed(name)
        ]

    def _check_usable(self, life: Life) -> None:
        if life.model.problem is not None:
            raise LoadFailed(
                f"{life.model.id} can't be used: {life.model.problem}", code="model_broken"
            )

    def _as_left(self, model: ModelInfo) -> ModelInfo:
        """A list that was asked for before we unloaded the model has it as it was then."""
        life = self._lives.get(model.id)
        if life is None or not model.managed or life.left_at < self._catalog.of(model.backend):
            return model
        return attrs.evolve(model, state="unloaded") if model.loaded else model

    async def _refresh(self, *, fresh: bool) -> None:
        told = await self._catalog.models(fresh=fresh)
        self._retire_parted()
        listed = {model.id: self._as_left(model) for model in told.values()}
        changed = listed != self._listed or self._lives.keys() != listed.keys()
        self._listed = listed
        if self._tasks is None:
            raise Unavailable("Cerberus is shutting down")
        for model in listed.values():
            life = self._lives.get(model.id)
            if life is None:
                life = Life(
                    self._backends[model.backend],
                    model,
                    self._policies.of(model.id),
                    self._clock,
                    self._changed,
                    admitted=self._memory.admitted,
                    idle=self._memory.fell_idle,
                    ready=self._memory.became_ready,
                    waits_for=self._memory.waits_for,
                    usual_load_s=self._memory.usual_load_s,
                )
                self._lives[model.id] = life
                self._tasks.start_soon(life.run, name=f"model {model.id}")
            elif life.state in ("unloaded", "failed") or not model.managed:
                life.model = model
            else:
                life.listed = model
            if model.loaded and model.managed and life.state in ("unloaded", "failed"):
                self._memory.found(life)
        for model_id in [key for key in self._lives if key not in listed]:
            # A model whose file went away lives on while it is loaded.
            if self._lives[model_id].retire():
                del self._lives[model_id]
                changed = True
        if changed:
            self._name_all()

    def _retire_parted(self) -> None:
        self._parted = [life for life in self._parted if not life.retire()]

    def _name_all(self) -> None:
        models = {model_id: life.model for model_id, life in self._lives.items()}
        self._names = index(models, self._policies.aliases)
