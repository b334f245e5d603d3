"""Memory and the models in it: what each takes, who is let in, what would happen."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from cerberus_core.platform import Clock
from cerberus_core.values import Estimate, Eviction, Fit, LoadPlan, Plan, PoolInfo

from . import fits
from .footprints import HOST, Expected, Footprints
from .foreign import Foreign
from .life import Life
from .pools import Pools, spread
from .residency import Decision, Footprint, MakeRoom, Pool, Refuse, Wait, Want
from .room import Room, RoomRules

GUESS_LIMIT_S = 2.0
"""Seconds a backend may take to guess a model's size for a list; unknown after that."""

_log = structlog.get_logger("engines")


class Memory:
    """Between the lives of the models and the room they share."""

    def __init__(
        self,
        backends: Mapping[str, Foreign],
        lives: Callable[[], Mapping[str, Life]],
        *,
        pools: Pools | None,
        footprints: Footprints,
        rules: RoomRules,
        clock: Clock,
    ) -> None:
        """`pools` None: nobody looks at sizes, only the rules count."""
        self._backends = backends
        self._lives = lives
        self._pools = pools
        self._footprints = footprints
        self._clock = clock
        self._expected: dict[str, Footprint] = {}
        self._unmeasured: set[str] = set()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._room = Room(
            lives,
            lambda: self._look(fresh=True),
            lambda model: self._expected.get(model, {}),
            rules=rules,
            clock=clock,
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await self._room.run()

    @asynccontextmanager
    async def admitted(self, life: Life) -> AsyncIterator[None]:
        """A load stands inside; it begins once there is room. Raises `NoRoom`."""
        if not life.model.managed:
            yield
            return
        want, _ = await self._want(life, await self._look(fresh=True))
        self._expected[life.model.id] = want.footprint
        life.load_s = self.usual_load_s(life) or life.load_s
        life.evicted = await self._room.admit(want)
        try:
            yield
        finally:
            self._room.settled(life.model.id)

    def retune(self, rules: RoomRules, budget_mib: int | None) -> None:
        """Other rules from the next decision on; nothing that is loaded leaves for them."""
        if self._pools is not None:
            self._pools.budget_mib = budget_mib
        self._room.retune(rules)

    def changed(self) -> None:
        """Some model came, went or was asked to."""
        self._room.changed()

    def fell_idle(self, life: Life) -> None:
        """Its last request has left."""
        self._room.fell_idle()
        if life.model.id in self._unmeasured and self._tasks is not None:
            # Once more after the first answers: not all is touched by the load.
            self._unmeasured.discard(life.model.id)
            self._tasks.start_soon(self._measure, life)

    def became_ready(self, life: Life, seconds: float) -> None:
        """Its load took so long."""
        if life.model.managed and self._tasks is not None:
            self._unmeasured.add(life.model.id)
            self._tasks.start_soon(self._measure, life, seconds)

    async def plan(self, life: Life) -> Plan:
        """What loading it would take and do, without doing it."""
        pools = await self._look(fresh=True)
        want, expected = await self._want(life, pools)
        decision = self._room.plan(want, pools)
        return _told(life, expected, decision, pools, self.usual_load_s(life))

    async def fits(self) -> dict[str, Fit]:
        """Of every model that can be loaded, whether it could be now: by one look for all.

        What is broken or served elsewhere is left out.
        """
        pools = await self._look()
        lives = [
            life
            for life in self._lives().values()
            if life.model.managed and life.model.problem is None
        ]
        wants = await asyncio.gather(*[self._want(life, pools, guess=True) for life in lives])
        told = {}
        for life, (want, expected) in zip(lives, wants, strict=True):
            model = life.model.id
            state = life.info().state
            if state in ("ready", "draining"):
                takes = sum(self._expected.get(model, {}).values()) or None
                told[model] = Fit(says="loaded", takes_mib=takes)
            elif state == "loading":
                waits = self._room.waits_for(model)
                told[model] = Fit(says="waits" if waits else "yes", others=list(waits))
            else:
                told[model] = fits.told(expected, self._room.plan(want, pools))
        return told

    def usual_load_s(self, life: Life) -> float | None:
        """What earlier loads took, in seconds; None before the first."""
        return self._footprints.load_s(life.model.id, self._plan_of(life))

    def _plan_of(self, life: Life) -> LoadPlan:
        """What sizes and times are learned for."""
        plan = life.plan
        try:
            return self._backends[life.model.backend].resolved(plan)
        except Exception as error:  # noqa: BLE001 - foreign code; what is asked for is known
            _log.warning("backend_fault", model=life.model.id, error=str(error))
            return plan

    def waits_for(self, life: Life) -> tuple[str, ...]:
        """The models in the way of its load, as far as they are waited for."""
        return self._room.waits_for(life.model.id)

    async def _look(self, *, fresh: bool = False) -> Sequence[Pool]:
        return () if self._pools is None else await self._pools.look(fresh=fresh)

    def found(self, life: Life) -> None:
        """Others have loaded it at its server: it counts, as far as that tells what it takes."""
        if life.model.id not in self._expected and self._tasks is not None:
            self._expected[life.model.id] = {}
            self._tasks.start_soon(self._measure_found, life)

    async def _measure_found(self, life: Life) -> None:
        taken = await self._taken(life)
        if taken and life.model.loaded:
            self._expected[life.model.id] = taken
            self._room.changed()
        elif not (life.model.loaded or self._expected.get(life.model.id)):
            self._expected.pop(life.model.id, None)  # when they load it again, it is measured

    async def _want(
        self, life: Life, pools: Sequence[Pool], *, guess: bool = False
    ) -> tuple[Want, Expected]:
        model, policy = life.model, life.policy
        if not pools:
            expected = Expected({}, "unknown")
        elif model.loaded:
            expected = Expected(self._expected.get(model.id, {}), "learned")
        else:
            estimate = await self._estimate(life, guess=guess)
            expected = self._footprints.expected(model.id, self._plan_of(life), estimate, pools)
        want = Want(
            model=model.id,
            footprint=expected.footprint,
            group=policy.group,
            exclusive=policy.exclusive,
            oversize=policy.oversize,
            there=model.loaded,
        )
        return want, expected

    async def _estimate(self, life: Life, *, guess: bool) -> Estimate | None:
        backend = self._backends[life.model.backend]
        try:
            if not guess:
                return await backend.estimate(life.model, life.plan)
            with anyio.move_on_after(GUESS_LIMIT_S):
                return await backend.guess(life.model, life.plan)
        except Exception as error:  # noqa: BLE001 - foreign code; an unknown size loads too
            _log.warning("estimate_failed", model=life.model.id, error=str(error))
        return None

    async def _taken(self, life: Life) -> Footprint:
        """What it has of each memory now; empty where nobody can tell."""
        if self._pools is None:
            return {}
        backend = self._backends.get(life.model.backend)
        try:
            told = None if backend is None else await backend.taken(life.model)
            if told is not None:
                return spread(told, await self._pools.look())
            return await self._pools.taken([] if backend is None else backend.processes(life.model))
        except Exception as error:  # noqa: BLE001 - foreign code; nothing is learned
            _log.warning("measure_failed", model=life.model.id, error=str(error))
            return {}

    async def _measure(self, life: Life, load_s: float | None = None) -> None:
        model, plan = life.model, self._plan_of(life)
        endpoint = life.endpoint
        now = self._clock.now()
        taken = await self._taken(life)
        if life.state != "ready" or life.endpoint is not endpoint:
            taken = {}  # some of it has left already

        def learn() -> Footprint:
            if load_s is not None:
                self._footprints.learn_load(model.id, plan, load_s, now)
            if not taken:
                return taken
            used = load_s is None
            return self._footprints.learn_taken(model.id, plan, taken, now, used=used)

        learned = await anyio.to_thread.run_sync(learn)
        if learned and life.endpoint is endpoint:
            self._expected[model.id] = learned
            life.cards = frozenset(learned.keys() - {HOST}) or None


def _told(
    life: Life, expected: Expected, decision: Decision, pools: Sequence[Pool], load_s: float | None
) -> Plan:
    leave = decision.leave if isinstance(decision, MakeRoom) else ()
    return Plan(
        model=life.model.id,
        loaded=not life.model.managed or life.state in ("ready", "draining"),
        footprint=dict(expected.footprint),
        source=expected.source,
        load_s=load_s,
        evict=[Eviction(model=model, why=why) for model, why in leave],
        waits_for=list(decision.busy) if isinstance(decision, Wait) else [],
        missing={} if isinstance(decision, Wait) else dict(decision.missing),
        why=decision.why if isinstance(decision, Refuse) else None,
        pools=[
            PoolInfo(name=p.name, total_mib=p.total, free_mib=p.free, budget_mib=p.budget)
            for p in pools
        ],
    )
