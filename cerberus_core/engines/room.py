"""Making room: carries out what `residency` decides, one decision at a time.

A model that is to be loaded asks `admit` and waits its turn. While only
models in use stand in its way they are waited for, and their own requests go
on; once it has waited for `max_wait_s` they are asked to leave, which lets
those that run finish and makes new ones wait behind. After somebody left, the
memory is given time to come back before anybody else is sent away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import anyio
import attrs
import structlog

from cerberus_core.errors import NoRoom
from cerberus_core.platform import Clock

from .residency import Decision, Footprint, Go, MakeRoom, Pool, Refuse, Resident, Want, decide

POLL_S = 0.25
"""How often memory is looked at while it comes back."""

_log = structlog.get_logger("engines")


@attrs.frozen(kw_only=True)
class RoomRules:
    """`max_loaded` None: as many as fit."""

    max_loaded: int | None = None
    max_wait_s: float = 30.0
    """How long a model waits for those in use before they are asked to leave."""
    settle_s: float = 5.0
    """How long memory may take to come back after a model has left."""


class Tenant(Protocol):
    """A model as the room sees it."""

    def resident(self, footprint: Footprint) -> Resident | None:
        """What it takes; None while it takes nothing."""
        ...

    def ask_unload(self) -> None: ...


@attrs.define(eq=False)
class _Ticket:
    want: Want
    began: float
    let_in: "asyncio.Future[None]"
    evicted: list[tuple[str, str]] = attrs.field(factory=list)
    waits_for: tuple[str, ...] = ()


class Room:
    """`await room.admit(want)` before a load, `room.settled(model)` after it, however it ended."""

    def __init__(
        self,
        tenants: Callable[[], Mapping[str, Tenant]],
        pools: Callable[[], Awaitable[Sequence[Pool]]],
        footprint: Callable[[str], Footprint],
        *,
        rules: RoomRules,
        clock: Clock,
    ) -> None:
        """`footprint`: what a model takes or is expected to, `{}` where that is unknown."""
        self._tenants = tenants
        self._pools = pools
        self._footprint = footprint
        self._rules = rules
        self._clock = clock
        self._tickets: list[_Ticket] = []
        self._promised: dict[str, Footprint] = {}
        self._leaving: set[str] = set()
        self._here: set[str] = set()
        self._settled_at = float("-inf")
        self._wake = asyncio.Event()

    async def admit(self, want: Want) -> list[tuple[str, str]]:
        """Wait until `want` may be loaded; who left for it, and why. Raises `NoRoom`."""
        ticket = _Ticket(want, self._clock.monotonic(), asyncio.get_running_loop().create_future())
        self._tickets.append(ticket)
        self._wake.set()
        try:
            await ticket.let_in
        except BaseException:
            self._promised.pop(want.model, None)
            raise
        finally:
            self._tickets.remove(ticket)
            self._wake.set()
        return ticket.evicted

    def settled(self, model: str) -> None:
        """Its load has ended; from here on it is seen as it is."""
        self._promised.pop(model, None)
        self.changed()

    def retune(self, rules: RoomRules) -> None:
        """Decide by other rules from now on."""
        self._rules = rules
        self.fell_idle()

    def changed(self) -> None:
        """Somebody came or went, for whatever reason."""
        here = set(self._residents())
        if self._here - here:
            self._leaving &= here
            self._settled_at = self._clock.monotonic()
        self._here = here
        self.fell_idle()

    def fell_idle(self) -> None:
        """Somebody may be sent away or let in now who could not before."""
        if self._tickets:
            self._wake.set()

    def waits_for(self, model: str) -> tuple[str, ...]:
        """The models in use that this one waits for."""
        return next((t.waits_for for t in self._tickets if t.want.model == model), ())

    async def plan(self, want: Want) -> Decision:
        """What would happen to `want` now. Nothing is done."""
        return self._decide(want, await self._pools())

    async def run(self) -> None:
        """Decide, as often as something changes. Until cancelled."""
        while True:
            self._wake.clear()
            await self._pause(await self._step() if self._tickets else None)

    async def _step(self) -> float | None:
        """Serve whom one can; the seconds after which to look again."""
        now = self._clock.monotonic()
        again: float | None = None
        first = True
        for ticket in list(self._tickets):
            if ticket.let_in.done():
                continue
            # Asked anew for each: the last one may have taken what was left.
            decision = self._decide(ticket.want, await self._pools())
            if ticket.let_in.done():
                continue
            if isinstance(decision, Go):
                self._promised[ticket.want.model] = ticket.want.footprint
                ticket.let_in.set_result(None)
            elif self._leaving:
                first = False  # `changed` tells when they have left
            elif now < self._settled_at + self._rules.settle_s:
                again = POLL_S  # their memory is not all back yet
                first = False
            elif isinstance(decision, Refuse):
                ticket.let_in.set_exception(_no_room(ticket.want, decision))
            elif first:
                # Others behind may only take what is free: nobody is sent away for them before.
                first = False
                again = self._make_room(ticket, decision, now)
        return again

    def _make_room(self, ticket: _Ticket, decision: Decision, now: float) -> float | None:
        if isinstance(decision, MakeRoom):
            ticket.waits_for = ()
            ticket.evicted += decision.leave
            for model, why in decision.leave:
                _log.info("evicted", model=model, why=why)
                self._send_away(model)
            return None
        assert not isinstance(decision, Go | Refuse)
        ticket.waits_for = decision.busy
        left = ticket.began + self._rules.max_wait_s - now
        if left > 0:
            return left
        for model in decision.busy:
            if model not in self._promised:
                self._send_away(model)
        return None

    def _send_away(self, model: str) -> None:
        self._leaving.add(model)
        self._tenants()[model].ask_unload()

    def _residents(self) -> dict[str, Resident]:
        residents: dict[str, Resident] = {}
        for model, tenant in self._tenants().items():
            promised = self._promised.get(model)
            if promised is not None:
                residents[model] = Resident(model=model, footprint=promised, loading=True)
                continue
            resident = tenant.resident(self._footprint(model))
            if resident is not None:
                leaving = model in self._leaving
                residents[model] = attrs.evolve(resident, busy=True) if leaving else resident
        return residents

    def _decide(self, want: Want, pools: Sequence[Pool]) -> Decision:
        residents = self._residents().values()
        return decide(want, residents, pools, max_loaded=self._rules.max_loaded)

    async def _pause(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wake.wait()
            return
        async with anyio.create_task_group() as tasks:

            async def alarm() -> None:
                await self._clock.sleep(seconds)
                self._wake.set()

            tasks.start_soon(alarm)
            await self._wake.wait()
            tasks.cancel_scope.cancel()


def _no_room(want: Want, decision: Refuse) -> NoRoom:
    return NoRoom(
        f"There is no room for {want.model}: {decision.why}",
        hint="`cerberus models plan` shows what stands in the way; a smaller context or "
        "another quantisation takes less.",
    )
