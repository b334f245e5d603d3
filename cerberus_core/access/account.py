"""One key's books: what it has spent, and what its running requests have reserved."""

from datetime import date, datetime
from typing import get_args

import attrs

from cerberus_core.values import ModelInfo

from .key import Key, Per
from .limits import NOTHING, Amounts, Ask, Refusal, may, out_of_scope, period, too_many
from .principal import Principal

_PERIODS: tuple[Per, ...] = get_args(Per)
_MAX_VERDICTS = 1024


class Account:
    """In memory; `Keys` writes `rows` down from time to time.

    A request counts from its beginning, whatever becomes of it. Tokens, money and
    joules are reserved then, and booked where they were really used, in the day and
    month of its end.
    """

    def __init__(
        self,
        key: Key,
        hash: bytes,
        spent: dict[str, Amounts] | None = None,
        last_used_at: datetime | None = None,
    ) -> None:
        self.hash = hash
        self.spent = spent or {}
        self.reserved = Amounts()
        self.running = 0
        self.last_used_at = last_used_at
        self.unwritten: set[str] = set()
        """Periods whose amounts have changed since they were written down."""
        self._today: date | None = None
        self._names: tuple[str, ...] = ()
        self.change(key)

    def change(self, key: Key) -> None:
        self.key = key
        self.principal = Principal(key.id, key.name)
        self._verdicts: dict[tuple[str, bool], Refusal | None] = {}

    def allows(self, model: ModelInfo) -> bool:
        """Whether the key is for this model, whatever it has spent."""
        known, about = self._verdicts, (model.id, model.local)
        if about not in known:
            if len(known) >= _MAX_VERDICTS:
                known.clear()
            known[about] = out_of_scope(self.key, model)
        return known[about] is None

    def reserve(self, model: ModelInfo, now: datetime, ask: Ask) -> "Reservation | Refusal":
        """Begin a request, or say why not."""
        key = self.key
        if key.max_parallel is not None and self.running >= key.max_parallel:
            return too_many(key)
        if key.limits or not self.allows(model):
            refusal = may(key, model, now, self.spent, self.reserved, ask)
            if refusal is not None:
                return refusal
        self.last_used_at = now
        if ask.anew:
            self.book(now, requests=1)
        return Reservation(self, ask, now)

    def book(
        self,
        now: datetime,
        *,
        requests: int = 0,
        tokens: int = 0,
        money: float = 0.0,
        joules: float = 0.0,
    ) -> None:
        """Count it as spent, in the day and month of `now`."""
        for name in self.names(now):
            amounts = self.spent.get(name)
            if amounts is None:
                amounts = self.spent[name] = Amounts()
            amounts.requests += requests
            amounts.tokens += tokens
            amounts.money += money
            amounts.joules += joules
        self.unwritten.update(self._names)

    def names(self, now: datetime) -> tuple[str, ...]:
        """Of the periods that `now` is in."""
        today = now.date()
        if today != self._today:
            self._today = today
            self._names = tuple(period(per, now) for per in _PERIODS)
        return self._names

    def in_period(self, per: Per, now: datetime) -> Amounts:
        return self.spent.get(period(per, now), NOTHING)

    def mean_joules(self) -> float:
        """Of its requests so far: what the next one may take."""
        total = self.spent.get("total", NOTHING)
        return total.joules / total.requests if total.requests else 0.0

    def rows(self, now: datetime) -> list[tuple[str, str, int, int, float, float]]:
        """To be written down, and taken for written: (key, period, amounts).

        What is reserved counts as spent: after a crash nobody knows better.
        """
        current = self.names(now)
        rows = []
        for name in sorted(self.unwritten):
            amounts = self.spent.get(name, NOTHING)
            if name in current:
                amounts = amounts.plus(self.reserved)
            rows.append((self.key.id, name, *attrs.astuple(amounts)))
        self.unwritten.clear()
        return rows


class Reservation:
    """Of one running request. Ends with `settle`, and then `settle_joules`."""

    def __init__(self, account: Account, held: Ask, now: datetime) -> None:
        self._account = account
        self._held = held
        self._open = True
        self._metered = False
        account.running += 1
        reserved = account.reserved
        reserved.tokens += held.tokens
        reserved.money += held.money or 0.0
        reserved.joules += held.joules
        account.unwritten.update(account.names(now))

    def settle(self, now: datetime, *, tokens: int = 0, money: float = 0.0) -> None:
        """It is over; it took so much. Harmless twice."""
        if not self._open:
            return
        self._open = False
        account, held = self._account, self._held
        account.running -= 1
        account.reserved.tokens -= held.tokens
        account.reserved.money = max(0.0, account.reserved.money - (held.money or 0.0))
        account.book(now, tokens=tokens, money=money)

    def settle_joules(self, now: datetime, joules: float) -> None:
        """What the meters say, which may come later. Harmless twice."""
        if not self._metered:
            self._metered = True
            reserved = self._account.reserved
            reserved.joules = max(0.0, reserved.joules - self._held.joules)
            self._account.book(now, joules=joules)
