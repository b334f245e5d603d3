"""A gateway key: what it may use, and how much. Pure."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Literal, get_args

import attrs

from cerberus_core.errors import BadRequest
from cerberus_core.values import ModelInfo

What = Literal["requests", "tokens", "money", "joules"]
Per = Literal["day", "month", "total"]

MAX_NAME = 64
MAX_PATTERNS = 100


@attrs.frozen(kw_only=True)
class Limit:
    """At most so much in a day or a month (of UTC), or in all."""

    what: What
    per: Per
    most: float
    """Tokens of prompt and answer; money by the price table; joules above idle."""


@attrs.frozen(kw_only=True)
class Key:
    """Without its secret."""

    id: str
    name: str
    created_at: datetime
    models: tuple[str, ...] = ()
    """Patterns (`*`, `?`, `[…]`) of the models it may use; none: all."""
    cloud: bool = True
    """Also models that don't run here."""
    limits: tuple[Limit, ...] = ()
    max_parallel: int | None = None
    """Requests at the same time."""
    expires_at: datetime | None = None
    store_prompts: bool = False
    """Whether prompts and answers of its requests may be kept."""

    def expired(self, now: datetime) -> bool:
        return self.expires_at is not None and now >= self.expires_at


def matches(pattern: str, model: ModelInfo) -> bool:
    """A pattern with a slash is one of ids; one without, of names in any backend."""
    return fnmatchcase(model.id if "/" in pattern else model.name, pattern)


def check(key: Key, taken: Iterable[str] = (), now: datetime | None = None) -> Key:
    """`key` as it is kept. Raises `BadRequest` where it makes no sense; `taken` are other names.

    `now`: of a change; None: it is made now.
    """
    name = key.name.strip()
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise BadRequest(f"A key's name has 1 to {MAX_NAME} printable characters")
    if name in taken:
        raise BadRequest(
            f"There is a key named {name!r} already",
            hint="`cerberus keys ls` shows them; take another name.",
            code="name_taken",
        )
    if len(key.models) > MAX_PATTERNS or not all(_is_pattern(one) for one in key.models):
        raise BadRequest(
            "`models` must be a list of models or patterns without spaces",
            hint="Such as llamacpp/* or acme/small.",
        )
    for limit in key.limits:
        _check_limit(limit)
    if len({(limit.what, limit.per) for limit in key.limits}) < len(key.limits):
        raise BadRequest("Of each kind there is one limit a day, one a month and one in all")
    if key.max_parallel is not None and key.max_parallel < 1:
        raise BadRequest("`max_parallel` must be 1 or more")
    expires_at = key.expires_at
    if expires_at is not None:
        expires_at = expires_at.replace(tzinfo=expires_at.tzinfo or UTC).astimezone(UTC)
        if expires_at <= (now or key.created_at):
            raise BadRequest("The key would have expired already")
    return attrs.evolve(key, name=name, expires_at=expires_at)


def _check_limit(limit: Limit) -> None:
    if limit.what not in get_args(What) or limit.per not in get_args(Per):
        raise BadRequest(
            f"There is no limit of {limit.what!r} per {limit.per!r}",
            hint=f"{', '.join(get_args(What))} per {', '.join(get_args(Per))}.",
        )
    if not math.isfinite(limit.most) or limit.most < 0:
        raise BadRequest(f"The limit of {limit.what} must be 0 or more")


def _is_pattern(text: str) -> bool:
    return bool(text) and text.isprintable() and not any(c.isspace() for c in text)
