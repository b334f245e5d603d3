"""May this key make this request now? Pure.

Days and months are those of UTC. A request is let in while there is room for
what it is expected to take beside what others have reserved. Where nobody has
reserved anything it is let in as long as something is left: a limit is passed
by one request at most, if none takes more than was expected of it.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import attrs

from cerberus_core.errors import CerberusError, Forbidden, LimitReached
from cerberus_core.values import ModelInfo

from .key import Key, Limit, Per, What, matches

Refusal = CerberusError
"""`Forbidden` or `LimitReached`: returned, not raised."""
SOON_S = 1
"""When to ask again where others have reserved what is left."""
_DUST = 1e-9
"""What sums of fractions may leave of nothing."""
_NAMES: dict[What, str] = {
    "requests": "requests",
    "tokens": "tokens",
    "money": "of money",
    "joules": "joules",
}
_PER: dict[Per, str] = {"day": " a day", "month": " a month", "total": " in all"}


@attrs.define(kw_only=True)
class Amounts:
    """What was spent, or is reserved."""

    requests: int = 0
    tokens: int = 0
    money: float = 0.0
    joules: float = 0.0

    def of(self, what: What) -> float:
        value: float = getattr(self, what)
        return value

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(
            requests=self.requests + other.requests,
            tokens=self.tokens + other.tokens,
            money=self.money + other.money,
            joules=self.joules + other.joules,
        )


NOTHING = Amounts()


@attrs.frozen(kw_only=True)
class Ask:
    """What a request is expected to take."""

    tokens: int = 0
    money: float | None = 0.0
    """None: its price is unknown."""
    joules: float = 0.0
    anew: bool = True
    """It was not counted as a request before."""

    def of(self, what: What) -> float:
        if what == "requests":
            return 1
        value: float | None = getattr(self, what)
        return value or 0.0


def period(per: Per, now: datetime) -> str:
    """The name of the day, the month or all of time that `now` (UTC) is in."""
    if per == "total":
        return "total"
    day = now.date().isoformat()
    return day if per == "day" else day[:7]


def renews_at(per: Per, now: datetime) -> datetime | None:
    """When a limit begins anew; None: never."""
    if per == "total":
        return None
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)
    if per == "day":
        return today + timedelta(days=1)
    return (today.replace(day=1) + timedelta(days=32)).replace(day=1)


def may(
    key: Key,
    model: ModelInfo,
    now: datetime,
    spent: Mapping[str, Amounts],
    reserved: Amounts = NOTHING,
    ask: Ask | None = None,
) -> Refusal | None:
    """None, or why not. `spent` by the name of its period."""
    ask = ask or Ask()
    refusal = out_of_scope(key, model)
    if refusal is not None:
        return refusal
    reached: list[tuple[datetime | None, Limit]] = []
    held: Limit | None = None
    for limit in key.limits:
        # What a local model takes costs no money, and a cloud's joules nobody knows.
        if (limit.what == "money" and model.local) or (limit.what == "joules" and not model.local):
            continue
        if limit.what == "requests" and not ask.anew:
            continue
        if limit.what == "money" and ask.money is None:
            return _unknown_price(key, model)
        used = spent.get(period(limit.per, now), NOTHING).of(limit.what)
        if used >= limit.most:
            reached.append((renews_at(limit.per, now), limit))
        else:
            others = reserved.of(limit.what)
            if others > _DUST and used + others + ask.of(limit.what) > limit.most:
                held = limit
    if reached:
        return _used_up(key, now, reached)
    return None if held is None else _reserved(key, held)


def out_of_scope(key: Key, model: ModelInfo) -> Refusal | None:
    """Whether the key is not for this model at all."""
    if not key.cloud and not model.local:
        which = f", of those {', '.join(key.models)}" if key.models else ""
        return Forbidden(
            f"The key {key.name!r} is for local models alone, and {model.id} is not local",
            hint=f"It may use what runs here{which}: GET /v1/models lists it.",
            code="cloud_not_allowed",
        )
    if key.models and not any(matches(pattern, model) for pattern in key.models):
        return Forbidden(
            f"The key {key.name!r} may not use {model.id}",
            hint=f"It may use {', '.join(key.models)}: GET /v1/models lists it.",
            code="model_not_allowed",
        )
    return None


def _unknown_price(key: Key, model: ModelInfo) -> Refusal:
    return Forbidden(
        f"The key {key.name!r} has a limit of money, and the price of {model.id} is unknown",
        hint=f'Set it in config.toml, per million tokens: [prices."{model.id}"] with input and '
        "output.",
        code="price_unknown",
    )


def _used_up(key: Key, now: datetime, reached: list[tuple[datetime | None, Limit]]) -> Refusal:
    # Of several the one that holds longest, so that asking again then really helps.
    never = datetime.max.replace(tzinfo=UTC)
    renews, limit = max(reached, key=lambda one: one[0] or never)
    error = LimitReached(
        f"The key {key.name!r} has used up its {_told(limit)}",
        hint="It does not renew: the owner can make another key."
        if renews is None
        else f"It renews at {renews:%Y-%m-%d %H:%M} UTC.",
    )
    if renews is not None:
        error.retry_after_s = max(1, math.ceil((renews - now).total_seconds()))
    return error


def _reserved(key: Key, limit: Limit) -> Refusal:
    error = LimitReached(
        f"What is left of the {_told(limit)} of the key {key.name!r} is reserved for its "
        "requests that run",
        hint="Ask again when they have ended, or set a smaller max_tokens.",
    )
    error.retry_after_s = SOON_S
    return error


def too_many(key: Key) -> Refusal:
    """As many run as may at the same time."""
    error = LimitReached(
        f"The key {key.name!r} has {key.max_parallel} requests running, which is its limit",
        hint="Ask again when one has ended.",
    )
    error.retry_after_s = SOON_S
    return error


def _told(limit: Limit) -> str:
    return f"{limit.most:g} {_NAMES[limit.what]}{_PER[limit.per]}"
