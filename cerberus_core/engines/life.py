"""The life of one model: unloaded → loading → ready → draining → unloaded, or failed.

`run` is the only place that changes the state. Requests enter and leave
without a task switch: in one event loop, reading the state and counting up
happen in the same step, and so does the owner's decision to drain.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import NoReturn

import anyio
import attrs
import structlog

from cerberus_core.errors import (
    CerberusError,
    EngineLost,
    LoadFailed,
    NoRoom,
    Overloaded,
    Unavailable,
)
from cerberus_core.platform import Clock, woken
from cerberus_core.values import Endpoint, Gone, LoadPlan, LoadProgress, ModelInfo, ModelState

from .foreign import Foreign
from .lease import Delay, Waited
from .policy import ModelPolicy, backoff_s
from .queue import Queue
from .residency import Footprint, Resident

STABLE_S = 60.0
"""An engine that lived this long, in seconds, starts with a clean slate when it is lost."""

STALL_S = 3600.0
"""A load that shows no sign of life for so long is broken off: a server that hangs. Slow disks
and large models take their time, and most servers tell nothing meanwhile."""
STOP_LIMIT_S = 20.0
"""How long the end of the daemon waits for a model to leave."""
STAYS_S = 60.0
"""A model that did not leave is not asked again so soon to make room for others."""
NO_ROOM_SHOWN_S = 30.0
"""How long a refusal for want of memory is shown: what it says is soon no longer true."""
MOST_RETRY_S = 60
"""Nobody is told to come back later than that."""
_NEWER = 0.2
"""Weight of the newest turn against those before."""

_log = structlog.get_logger("engines")


class Life:
    """One model's state, counters and owner task."""

    def __init__(
        self,
        backend: Foreign,
        model: ModelInfo,
        policy: ModelPolicy,
        clock: Clock,
        changed: Callable[[ModelInfo], None],
        *,
        admitted: Callable[["Life"], AbstractAsyncContextManager[None]],
        idle: Callable[["Life"], None],
        ready: Callable[["Life", float], None],
        waits_for: Callable[["Life"], tuple[str, ...]] = lambda _: (),
        usual_load_s: Callable[["Life"], float | None] = lambda _: None,
    ) -> None:
        """`admitted`: a load stands inside it, and waits in it for memory. `idle`: the last
        request has left. `ready`: a load has ended well, after so many seconds.
        `waits_for`: the models in the way of a load. `usual_load_s`: what earlier loads took.
        """
        self.model = model
        self.state: ModelState = "unloaded"
        self.queue = Queue(limit=policy.concurrency, longest=policy.queue_limit)
        self.endpoint: Endpoint | None = None
        self._backend = backend
        self.policy = policy
        self._clock = clock
        self._changed = changed
        self._admitted = admitted
        self._idle = idle
        self._on_ready = ready
        self._waits_for = waits_for
        self._usual_load_s = usual_load_s
        self._failure: str | None = None
        self._progress: LoadProgress | None = None
        self._last_used: datetime | None = None
        self._idle_since = 0.0
        self._loaded_plan = policy.plan
        self._failures = 0
        self._retry_at = 0.0
        self._load_began: float | None = None
        """When its last load began, waits for memory not counted; None: it has to wait yet."""
        self._ready_at = 0.0
        self._held_until = 0.0
        self._owner = anyio.CancelScope()
        self._load_asked = False
        self._by_hand = False
        """Somebody wants it loaded who does not wait for it."""
        self._barred = False
        self._stays_until = float("-inf")
        self._refusal: CerberusError | None = None
        """Why it did not leave when it was asked to."""
        self._no_room = False
        self._stalled = False
        self._sign_at = 0.0
        self.listed: ModelInfo | None = None
        """What its backend said of it last, where that came while it was loaded."""
        self.evicted: list[tuple[str, str]] = []
        """Who left for the last load, and why."""
        self.cards: frozenset[str] | None = None
        """The GPUs that it sits on, once it was measured there."""
        self._turn_s: float | None = None
        """How long it takes until the next one of the queue has its turn."""
        self.left_at = float("-inf")
        """When it was unloaded last."""
        self.load_s = 1.0
        """What a load takes, in seconds: as learned when one begins, then as this one took."""
        self._wake = asyncio.Event()
        self._unload_asked = False
        self._unloaded = asyncio.Event()
        self._loading: anyio.CancelScope | None = None
        self._lost: str | None = None
        self._crashed = True
        self._lost_event = asyncio.Event()

    def info(self) -> ModelInfo:
        """The backend's facts with the state of this moment."""
        state = self.state
        if state == "unloaded":
            state = self.model.state  # it may be loaded at its server, by others
        loading = state == "loading"
        progress = self._progress if loading else None
        return attrs.evolve(
            self.model,
            state=state,
            failure=self._failure,
            progress=progress.fraction if progress else None,
            eta_s=self._eta_s() if loading else None,
            waits_for=self._waits_for(self) if loading else (),
            queued=len(self.queue),
            loaded_ctx=self.endpoint.ctx if self.endpoint else None,
            last_used=self._shown_last_used(),
            in_flight=self.in_flight,
        )

    def _shown_last_used(self) -> datetime | None:
        """Not a time to come, where the clock was set back meanwhile."""
        return None if self._last_used is None else min(self._last_used, self._clock.now())

    @property
    def in_flight(self) -> int:
        """Requests that use it now."""
        return self.queue.in_flight

    def delay(self) -> Delay:
        """What one that asks now would wait for."""
        load_s = None
        if self.state == "loading":
            load_s = self._eta_s()
        elif self.state != "ready" and self.model.managed:
            load_s = self._usual_load_s(self)
        return Delay(load_s=load_s, queue_s=self._turns_s())

    @property
    def plan(self) -> LoadPlan:
        """What it is loaded with, or would be."""
        there = self.state in ("loading", "ready", "draining")
        return self._loaded_plan if there else self.policy.plan

    def retune(self, policy: ModelPolicy) -> None:
        """Treat it so from now on. What is loaded stays as it was loaded."""
        if policy == self.policy:
            return
        self.policy = policy
        self.queue.retune(limit=policy.concurrency, longest=policy.queue_limit)
        self._wake.set()

    # What requests call.

    def try_enter(self) -> bool:
        """Count a request in if the model is ready and nobody waits."""
        return self.queue.try_enter()

    async def enter(self) -> Waited | None:
        """Wait until the model is ready and it is our turn; counted in then. What it waited for.

        Raises what the load raised, and `Overloaded`. A caller that is cancelled is forgotten.
        """
        if self.queue.try_enter():
            return None
        if self._barred:
            raise self._being_removed()
        began = self._clock.monotonic()
        self._refuse_while_backing_off()
        try:
            place = self.queue.join()
        except Overloaded as error:
            error.retry_after_s = self._retry_after_s()
            raise
        self._wake.set()
        await self.queue.wait(place)
        if self.endpoint is None:  # lost between the word and this step
            self.leave()
            raise EngineLost(self._lost or f"The engine of {self.model.id} is gone")
        return self._waited(began)

    def leave(self, hold_s: float = 0.0) -> None:
        """Count a request out. Idleness starts here, not when it began.

        For `hold_s` seconds the model is kept for the next turn of the same session.
        """
        now = self._clock.monotonic()
        if len(self.queue):
            turn_s = now - self._idle_since
            before = turn_s if self._turn_s is None else self._turn_s
            self._turn_s = before + (turn_s - before) * _NEWER
        self.queue.leave()
        self._last_used = self._clock.now()
        self._idle_since = now
        self._held_until = max(self._held_until, now + hold_s)
        if self.in_flight == 0:
            self._idle(self)
            if self._unload_asked:
                self._wake.set()

    def resident(self, footprint: Footprint) -> Resident | None:
        """What it is to those who make room; None while it takes none."""
        if not self.model.managed:
            return None
        now = self._clock.monotonic()
        facts = Resident(
            model=self.model.id,
            footprint=footprint,
            pinned=self.policy.pinned,
            stays=now < self._stays_until,
            reload_s=self.load_s,
            group=self.policy.group,
            exclusive=self.policy.exclusive,
        )
        if self.state == "loading" and self._load_began is not None:
            return attrs.evolve(facts, loading=True, wanted=self.wanted)
        if self.state not in ("ready", "draining"):
            return facts if self.model.loaded else None  # others use it, for all one knows
        return attrs.evolve(
            facts,
            busy=self.in_flight > 0 or not self.queue.is_open,
            held_s=max(0.0, self._held_until - now),
            idle_s=now - self._idle_since,
            ready_s=now - self._ready_at,
        )

    @property
    def wanted(self) -> bool:
        """Somebody waits for its load, or asked for it by hand."""
        return self._by_hand or len(self.queue) > 0

    @property
    def leaving(self) -> bool:
        """It was asked to leave, and has not yet, or refused to."""
        return self._unload_asked or self.state == "draining"

    def explain(self, status: int, body: bytes) -> CerberusError | None:
        """The backend's words for a refusal; a fault of the backend explains nothing."""
        try:
            error = self._backend.explain(self.model, status, body)
        except Exception:  # noqa: BLE001 the refusal is told all the same
            _log.exception("backend_fault", backend=self._backend.name, model=self.model.id)
            return None
        return error if isinstance(error, CerberusError) else None

    async def unload(self) -> None:
        """Ask for the unload and wait for it. Requests that run are let finish."""
        if not self._there:
            return
        self._unloaded.clear()
        self.ask_unload()
        await self._unloaded.wait()
        if self._refusal is not None:
            raise self._refusal

    @asynccontextmanager
    async def removed(self) -> AsyncIterator[None]:
        """It is unloaded, and stays so, for the time of a block. Raises as `unload` does."""
        self._barred = True
        try:
            if self.model.managed:
                await self.unload()
            self.queue.fail(self._being_removed())
            yield
        finally:
            self._barred = False
            self._wake.set()

    def ask_unload(self) -> None:
        """Unload as soon as nobody uses it; a load in progress is broken off."""
        if not self._there:
            return
        self._unload_asked = True
        self.queue.close()
        if self._loading is not None:
            self._loading.cancel()
        self._wake.set()
        self.tell()

    def tell(self) -> None:
        """Tell watchers how it is now."""
        self._changed(self.info())

    def ask_load(self) -> None:
        """Start loading without waiting for it."""
        if self._barred:
            raise self._being_removed()
        self._refuse_while_backing_off()
        if self.state not in ("loading", "ready") or self._unload_asked:
            self._load_asked = True
            self._wake.set()

    @property
    def _wanted(self) -> bool:
        return not self._barred and (self._load_asked or len(self.queue) > 0)

    @property
    def _there(self) -> bool:
        """Whether there is something to unload; others may have loaded it at its server."""
        return self.state not in ("unloaded", "failed") or self._wanted or self.model.loaded

    def retire(self) -> bool:
        """End the owner task of a model that is gone; False while it is loaded."""
        there = not self.model.managed and self.in_flight == 0  # nothing is loaded for it
        if self._wanted or not (there or self.state in ("unloaded", "failed")):
            return False
        self._owner.cancel()
        return True

    def part(self) -> None:
        """Its backend was replaced: who is in goes on, and nothing is told of it any more."""
        self._changed = lambda _: None

    async def lost_reason(self, endpoint: Endpoint, wait_s: float) -> str | None:
        if self.endpoint is not endpoint:
            return self._lost
        with anyio.move_on_after(wait_s):
            await self._lost_event.wait()
        return self._lost

    # What the owner task does.

    async def run(self) -> None:
        """Own the model until cancelled or retired; leaves it unloaded."""
        try:
            with self._owner:
                while True:
                    await self._until_wanted()
                    if await self._load():
                        await self._serve()
        finally:
            self.queue.fail(Unavailable("Cerberus is shutting down"))
            if self.state in ("ready", "draining", "loading"):
                with anyio.move_on_after(STOP_LIMIT_S, shield=True):
                    await self._drop("unloaded")

    async def _until_wanted(self) -> None:
        while not (self._wanted or self._unload_asked):
            self._wake.clear()
            await woken(self._wake, self._clock, NO_ROOM_SHOWN_S if self._no_room else None)
            if self._no_room and not (self._wanted or self._unload_asked):
                self._no_room = False
                self._failure = None
                self._set("unloaded")

    async def _load(self) -> bool:
        self._by_hand, self._load_asked = self._load_asked, False
        self._refusal = None
        if self._unload_asked:
            self._unload_asked = False
            self.queue.fail(self._unloaded_meanwhile())
            if self.model.loaded:
                await self._drop("unloaded")
            self._unloaded.set()
            return False
        self.endpoint = None
        self._lost = None
        self._lost_event = asyncio.Event()
        self._failure = None
        self._no_room = self._stalled = False
        self._progress = None
        self._load_began = None
        self.cards = None
        self._loaded_plan = self.policy.plan
        self._set("loading")
        watching: asyncio.Task[None] | None = None
        try:
            with anyio.CancelScope() as self._loading:
                async with self._admitted(self):
                    self._load_began = self._sign_at = began = self._clock.monotonic()
                    watching = asyncio.create_task(self._watch_load(self._loading))
                    self.endpoint = await self._backend.load(
                        self.model, self._loaded_plan, self._report
                    )
                    self.load_s = self._clock.monotonic() - began
        except NoRoom as error:
            # Told like any failed load, but no fault of the model's: the next may try at once.
            self._failure = error.message
            self._no_room = True
            self._unload_asked = False
            self._set("failed")
            self._unloaded.set()
            self.queue.fail(error)
            return False
        except CerberusError as error:
            self._load_failed(error)
            return False
        except Exception as error:  # noqa: BLE001
            # A backend is foreign code: whatever it raises is a failed load, not our end.
            _log.exception("backend_fault", backend=self._backend.name, model=self.model.id)
            self._load_failed(
                LoadFailed(
                    f"{self.model.id} could not be loaded: the {self._backend.name} backend "
                    f"raised {type(error).__name__}: {error}",
                    hint="This is a fault of the plugin; its traceback stands where "
                    "`cerberus serve` runs.",
                )
            )
            return False
        finally:
            scope, self._loading = self._loading, None
            if watching is not None:
                watching.cancel()
        if self._stalled:
            self._load_failed(
                LoadFailed(
                    f"{self.model.id} gave no sign of life for {STALL_S:.0f} s while it loaded",
                    hint="The log of its server or engine may tell why.",
                )
            )
            return False
        if self._unload_asked or self.endpoint is None or scope is None or scope.cancelled_caught:
            self.queue.fail(self._unloaded_meanwhile())
            await self._drop("unloaded")
            return False
        self._ready_at = self._idle_since = self._clock.monotonic()
        self._set("ready")
        self.queue.open()
        self._on_ready(self, self.load_s)
        return True

    async def _serve(self) -> None:
        """Until the engine is lost, idle for too long, or asked to go; then unload."""
        async with anyio.create_task_group() as tasks:
            if self.model.managed:
                tasks.start_soon(self._watch_engine)
            while True:
                self._wake.clear()
                if self._lost is not None:
                    break
                if self.in_flight == 0 and (self._unload_asked or self._idle_for_too_long()):
                    self.queue.close()  # in the same step: nobody may come in any more
                    break
                await woken(self._wake, self._clock, self._until_idle_limit())
            tasks.cancel_scope.cancel()
        if self._lost is None:
            self._failures = 0
            await self._drop("unloaded")
        elif not self._crashed:
            await self._drop("unloaded")  # who waits has it loaded again
        else:
            if self._clock.monotonic() - self._ready_at > STABLE_S:
                self._failures = 0
            self._count_failure()
            self._failure = self._lost
            if self._failures > 1:
                # It came and went before: those who wait are told, and not kept for ever.
                self.queue.fail(EngineLost(self._lost))
            await self._drop("failed")

    async def _watch_engine(self) -> None:
        try:
            gone = await self._backend.gone(self.model)
        except Exception as error:  # noqa: BLE001 - foreign code; treated as a lost engine
            gone = Gone(f"{type(error).__name__}: {error}")
        _log.warning("engine_lost", model=self.model.id, reason=gone.why, crashed=gone.crashed)
        self.queue.close()
        self._lost, self._crashed = gone.why, gone.crashed
        self._lost_event.set()
        self._wake.set()

    async def _drop(self, then: ModelState) -> None:
        """Have it leave. One that refuses stays counted, as others' models are."""
        self.queue.close()
        self._set("draining")
        self._refusal = None
        try:
            await self._backend.unload(self.model)
        except Exception as error:  # noqa: BLE001 - foreign code; the state must go on
            _log.warning("unload_failed", model=self.model.id, error=str(error))
            self._refusal = self._not_left(error)
            self._failure = self._refusal.message
            self._stays_until = self._clock.monotonic() + STAYS_S
        self.endpoint = None
        if self._refusal is None:
            self.left_at = self._clock.monotonic()
        if self.model.managed:
            state: ModelState = "unloaded" if self._refusal is None else "ready"
            self.model = attrs.evolve(self.listed or self.model, state=state)
        self.listed = None
        self._unload_asked = False
        self._set(then)
        self._unloaded.set()

    def _until_idle_limit(self) -> float | None:
        if self.policy.ttl_s <= 0 or not self.model.managed:
            return None
        if self.in_flight:
            return self.policy.ttl_s  # it can't be over sooner than that
        return max(0.0, self._idle_since + self.policy.ttl_s - self._clock.monotonic())

    def _idle_for_too_long(self) -> bool:
        left = self._until_idle_limit()
        return left is not None and left <= 0

    def _waited(self, since: float) -> Waited:
        now = self._clock.monotonic()
        began = self._load_began
        if not self.model.managed or began is None or self._ready_at <= since:
            return Waited(queue_s=now - since)
        load_s = self._ready_at - max(since, began)
        return Waited(
            queue_s=now - since - load_s,
            load_s=load_s,
            evicted=tuple(model for model, _ in self.evicted),
        )

    def _eta_s(self) -> float | None:
        usual, began = self._usual_load_s(self), self._load_began
        if usual is None or began is None:
            return usual
        left = usual - (self._clock.monotonic() - began)
        return left if left > 0 else None

    async def _watch_load(self, loading: anyio.CancelScope) -> None:
        while (left := self._sign_at + STALL_S - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        self._stalled = True
        loading.cancel()

    def _report(self, progress: LoadProgress) -> None:
        self._progress = progress
        self._sign_at = self._clock.monotonic()
        self.tell()

    def _set(self, state: ModelState) -> None:
        self.state = state
        self.tell()

    def _load_failed(self, error: CerberusError) -> None:
        self._count_failure()
        self._failure = error.message
        self._unload_asked = False
        self._set("failed")
        self._unloaded.set()
        self.queue.fail(error)

    def _count_failure(self) -> None:
        self._failures += 1
        self._retry_at = self._clock.monotonic() + backoff_s(self._failures)

    def _refuse_while_backing_off(self) -> None:
        left = self._retry_at - self._clock.monotonic()
        if self.state not in ("loading", "ready") and left > 0:
            self._refuse(left)

    def _retry_after_s(self) -> int:
        """When those who wait now will have had their turn, roughly."""
        load_s = self.load_s if self.state != "ready" else 0.0
        return min(max(1, math.ceil(load_s + self._turns_s())), MOST_RETRY_S)

    def _turns_s(self) -> float:
        """Of those who wait now."""
        return len(self.queue) * (self._turn_s or 0.0) if self.queue.limit is not None else 0.0

    def _not_left(self, error: Exception) -> CerberusError:
        words = error.message if isinstance(error, CerberusError) else f"{error}"
        hint = error.hint if isinstance(error, CerberusError) else None
        return Unavailable(f"{self.model.id} did not leave memory: {words}", hint=hint)

    def _being_removed(self) -> Unavailable:
        return Unavailable(f"{self.model.id} is being deleted", code="unloaded")

    def _unloaded_meanwhile(self) -> Unavailable:
        error = Unavailable(f"{self.model.id} was unloaded before it was ready", code="unloaded")
        error.retry_after_s = 1  # who asks again has it loaded anew
        return error

    def _refuse(self, left: float) -> NoReturn:
        error = LoadFailed(
            f"{self.model.id} failed {self._failures} times in a row: {self._failure}",
            hint=f"It is tried again in {left:.0f} s.",
            code="load_backoff",
        )
        error.retry_after_s = math.ceil(left)
        raise error
