"""Making room: carries out what `residency` decides, one decision at a time.

A model that is to be loaded asks `admit` and waits its turn. While only
models in use, or held for a session's next turn, stand in its way they are
waited for, and their own requests go on; once it has waited for `max_wait_s`
they are asked to leave, which lets those that run finish and makes new ones
wait behind. After somebody left, the memory is given time to come back before
anybody else is sent away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import attrs
import structlog

from cerberus_core.errors import NoRoom
from cerberus_core.platform import Clock, woken

from .residency import (
    Decision,
    Footprint,
    Go,
    MakeRoom,
    Pool,
    Refuse,
    Resident,
    Want,
    all_back,
    decide,
    hopeless,
)

POLL_S = 0.25
"""How often memory is looked at while it comes back."""

RETRY_S = 10
"""When asking again may help where other programs hold the memory."""
NOTHING: Mapping[str, Footprint] = {}

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

    @property
    def wanted(self) -> bool:
        """Of one that loads: somebody waits for it."""
        ...

    @property
    def leaving(self) -> bool:
        """It was asked to leave, and has not yet, or refused to."""
        ...

    def tell(self) -> None:
        """Something about it has changed that is worth telling."""
        ...


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
        tenants = self._tenants()
        # One that refused to leave is waited for no longer.
        self._leaving = {m for m in self._leaving & here if m in tenants and tenants[m].leaving}
        if self._here - here:
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

    def plan(self, want: Want, pools: Sequence[Pool]) -> Decision:
        """What would happen to `want` now. Nothing is done."""
        return self._hopeless(want, pools) or self._decide(want, pools)

    async def run(self) -> None:
        """Decide, as often as something changes. Until cancelled."""
        while True:
            self._wake.clear()
            await woken(self._wake, self._clock, await self._step() if self._tickets else None)

    async def _step(self) -> float | None:
        """Serve whom one can; the seconds after which to look again."""
        now = self._clock.monotonic()
        again: float | None = None
        first = True
        claimed: dict[str, Footprint] = {}
        for ticket in list(self._tickets):
            if ticket.let_in.done():
                continue
            # Asked anew for each: the last one may have taken what was left.
            pools = await self._pools()
            decision = self._decide(ticket.want, pools, claimed)
            if ticket.let_in.done():
                continue
            coming = self._coming_back(now)
            if isinstance(decision, Go) and not (decision.missing and coming):
                self._note_wait(ticket, ())
                self._promised[ticket.want.model] = ticket.want.footprint
                ticket.let_in.set_result(None)
                continue
            after = self._not_yet(ticket, decision, pools, claimed, now, first=first)
            again = min((s for s in (again, after) if s is not None), default=None)
            if not ticket.let_in.done():
                first = False
            if ticket.evicted:
                # They left for it: what they held is not for those behind.
                claimed[ticket.want.model] = ticket.want.footprint
        return again

    def _not_yet(
        self,
        ticket: _Ticket,
        decision: Decision,
        pools: Sequence[Pool],
        claimed: Mapping[str, Footprint],
        now: float,
        *,
        first: bool,
    ) -> float | None:
        """For one that can't be let in now; the seconds after which to look again."""
        never = self._hopeless(ticket.want, pools)
        if never is not None:
            ticket.let_in.set_exception(_no_room(ticket.want, never))
            return None
        if self._leaving:
            return None  # `changed` tells when they have left
        if self._coming_back(now):
            # The memory of those who left is not all back yet. Is it all that is missing?
            decision = self._decide(ticket.want, all_back(pools), claimed)
            if isinstance(decision, Go):
                return POLL_S
        if isinstance(decision, Refuse):
            error = _no_room(ticket.want, decision)
            error.retry_after_s = RETRY_S  # others hold the memory, for now
            ticket.let_in.set_exception(error)
            return None
        # Others behind may only take what is free: nobody is sent away for them before.
        return self._make_room(ticket, decision, now) if first else None

    def _coming_back(self, now: float) -> bool:
        """Whether memory of somebody who left, or is about to, may still come."""
        return bool(self._leaving) or now < self._settled_at + self._rules.settle_s

    def _make_room(self, ticket: _Ticket, decision: Decision, now: float) -> float | None:
        if isinstance(decision, MakeRoom):
            self._note_wait(ticket, ())
            for model, why in decision.leave:
                self._send_away(model, ticket, why)
            return None
        assert not isinstance(decision, Go | Refuse)
        self._note_wait(ticket, decision.busy)
        left = ticket.began + self._rules.max_wait_s - now
        if left > 0:
            return left if decision.again_s is None else min(left, decision.again_s)
        for model in decision.leave:
            waited = now - ticket.began
            self._send_away(model, ticket, f"{ticket.want.model} has waited for {waited:.0f} s")
        return None

    def _note_wait(self, ticket: _Ticket, busy: tuple[str, ...]) -> None:
        if ticket.waits_for != busy:
            ticket.waits_for = busy
            tenant = self._tenants().get(ticket.want.model)
            if tenant is not None:
                tenant.tell()

    def _send_away(self, model: str, ticket: _Ticket, why: str) -> None:
        _log.info("evicted", model=model, why=why)
        ticket.evicted.append((model, why))
        self._leaving.add(model)
        self._tenants()[model].ask_unload()

    def _residents(self, claimed: Mapping[str, Footprint] = NOTHING) -> dict[str, Resident]:
        residents: dict[str, Resident] = {
            model: Resident(model=model, footprint=footprint, loading=True)
            for model, footprint in claimed.items()
        }
        for model, tenant in self._tenants().items():
            promised = self._promised.get(model)
            if promised is not None:
                residents[model] = Resident(
                    model=model, footprint=promised, loading=True, wanted=tenant.wanted
                )
                continue
            resident = tenant.resident(self._footprint(model))
            if resident is not None:
                residents[model] = resident
        return residents

    def _decide(
        self, want: Want, pools: Sequence[Pool], claimed: Mapping[str, Footprint] = NOTHING
    ) -> Decision:
        residents = self._residents(claimed).values()
        return decide(want, residents, pools, max_loaded=self._rules.max_loaded)

    def _hopeless(self, want: Want, pools: Sequence[Pool]) -> Refuse | None:
        residents = self._residents().values()
        return hopeless(want, residents, pools, max_loaded=self._rules.max_loaded)


def _no_room(want: Want, decision: Refuse) -> NoRoom:
    hint = "`cerberus models plan` shows what stands in the way."
    if decision.missing:
        hint = (
            f"{hint} A smaller context or another quantisation takes less. `cerberus config set "
            f"'models.\"{want.model}\".oversize' true` loads it all the same, slow as it may be."
        )
    return NoRoom(f"There is no room for {want.model}: {decision.why}", hint=hint)
