"""Memory and the models in it: what each takes, who is let in, what would happen."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from cerberus_core.interfaces import Backend
from cerberus_core.platform import Clock
from cerberus_core.values import Estimate, Eviction, Plan, PoolInfo

from .footprints import Expected, Footprints
from .life import Life
from .pools import Pools, spread
from .residency import Decision, Footprint, MakeRoom, Pool, Refuse, Wait, Want
from .room import Room, RoomRules

_log = structlog.get_logger("engines")


class Memory:
    """Between the lives of the models and the room they share."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        lives: Callable[[], Mapping[str, Life]],
        *,
        pools: Pools | None,
        footprints: Footprints,
        rules: RoomRules,
        clock: Clock,
    ) -> None:
        """`pools` None: nobody looks at sizes, only the rules count."""
        self._backends = backends
        self._pools = pools
        self._footprints = footprints
        self._clock = clock
        self._expected: dict[str, Footprint] = {}
        self._unmeasured: set[str] = set()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._room = Room(
            lives, self._look, lambda model: self._expected.get(model, {}), rules=rules, clock=clock
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
        want, _ = await self._want(life)
        self._expected[life.model.id] = want.footprint
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
        want, expected = await self._want(life)
        decision = await self._room.plan(want)
        return _told(life, expected, decision, await self._look(), self._load_s(life))

    def _load_s(self, life: Life) -> float | None:
        return self._footprints.load_s(life.model.id, life.plan)

    async def _look(self) -> Sequence[Pool]:
        return () if self._pools is None else await self._pools.look()

    async def _want(self, life: Life) -> tuple[Want, Expected]:
        model, policy, plan = life.model, life.policy, life.plan
        pools = await self._look()
        estimate: Estimate | None = None
        try:
            estimate = await self._backends[model.backend].estimate(model, plan)
        except Exception as error:  # noqa: BLE001 - foreign code; an unknown size loads too
            _log.warning("estimate_failed", model=model.id, error=str(error))
        expected = self._footprints.expected(model.id, plan, estimate, pools)
        if not pools or model.loaded:  # others have loaded it: it takes nothing more
            expected = Expected({}, "unknown")
        want = Want(
            model=model.id,
            footprint=expected.footprint,
            group=policy.group,
            exclusive=policy.exclusive,
        )
        return want, expected

    async def _measure(self, life: Life, load_s: float | None = None) -> None:
        backend, model, plan = self._backends[life.model.backend], life.model, life.plan
        now = self._clock.now()
        try:
            told = await backend.taken(model)
            pids = backend.processes(model)
        except Exception as error:  # noqa: BLE001 - foreign code; nothing is learned
            _log.warning("measure_failed", model=model.id, error=str(error))
            return
        taken: Footprint = {}
        if self._pools is not None:
            if told is not None:
                taken = spread(told, await self._pools.look())
            else:
                taken = await self._pools.taken(pids)

        def learn() -> None:
            if taken:
                self._footprints.learn_taken(model.id, plan, taken, now)
            if load_s is not None:
                self._footprints.learn_load(model.id, plan, load_s, now)

        await anyio.to_thread.run_sync(learn)
        if taken and life.endpoint is not None:
            self._expected[model.id] = taken


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
        missing=dict(decision.missing) if isinstance(decision, Refuse) else {},
        why=decision.why if isinstance(decision, Refuse) else None,
        pools=[
            PoolInfo(name=p.name, total_mib=p.total, free_mib=p.free, budget_mib=p.budget)
            for p in pools
        ],
    )
