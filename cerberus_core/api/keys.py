"""Gateway keys. Their tokens are told once, when they are made."""

from datetime import datetime
from typing import Any

import attrs
from litestar import Controller, delete, get, patch, post
from litestar.params import FromPath, JSONBody
from msgspec import UNSET, UnsetType

from cerberus_core.access import Account, Amounts, Key, Limit, Per, What, renews_at

from .services import Given


@attrs.frozen(kw_only=True)
class LimitState:
    """A limit, and how far it is used. `renews_at` None: never."""

    what: What
    per: Per
    most: float
    spent: float
    reserved: float
    """For requests that run."""
    renews_at: datetime | None


@attrs.frozen(kw_only=True)
class KeyInfo:
    """A key without its token. `last_used_at` None: never."""

    id: str
    name: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    expired: bool
    models: list[str]
    """Patterns; empty: all."""
    cloud: bool
    """Also models that don't run here."""
    limits: list[LimitState]
    max_parallel: int | None
    running: int
    store_prompts: bool
    day: Amounts
    """What it has spent today, of UTC."""
    month: Amounts
    total: Amounts


@attrs.frozen(kw_only=True)
class KeyInfos:
    """The oldest first. Prices, and limits of money, are in `currency`."""

    keys: list[KeyInfo]
    currency: str


@attrs.frozen(kw_only=True)
class NewKey:
    """What is left out sets no limit."""

    name: str
    models: list[str] = attrs.field(factory=list)
    cloud: bool = True
    limits: list[Limit] = attrs.field(factory=list)
    max_parallel: int | None = None
    expires_at: datetime | None = None
    store_prompts: bool = False


@attrs.frozen(kw_only=True)
class MadeKey:
    """`token` is what clients send. It is told here and never again."""

    token: str = attrs.field(repr=False)
    key: KeyInfo


@attrs.frozen(kw_only=True)
class KeyChange:
    """What is left out stays; `max_parallel` and `expires_at` null: none any more."""

    name: str | UnsetType = UNSET
    models: list[str] | UnsetType = UNSET
    cloud: bool | UnsetType = UNSET
    limits: list[Limit] | UnsetType = UNSET
    """All there are from then on."""
    max_parallel: int | UnsetType | None = UNSET
    expires_at: datetime | UnsetType | None = UNSET
    store_prompts: bool | UnsetType = UNSET


class KeysController(Controller):
    path = "/api/keys"
    tags = ["access"]

    @get(summary="Gateway keys", sync_to_thread=False)
    def list(self, services: Given) -> KeyInfos:
        """All of them with their limits and what they have spent."""
        now = services.clock.now()
        return KeyInfos(
            keys=[_info(account, now) for account in services.keys.all()],
            currency=services.settings.config.energy.currency,
        )

    @post(summary="Make a gateway key")
    async def add(self, services: Given, data: JSONBody[NewKey]) -> MadeKey:
        """It opens `/v1` alone, as `Authorization: Bearer` or `x-api-key`."""

        def wanted(key_id: str, now: datetime) -> Key:
            return Key(
                id=key_id,
                name=data.name,
                created_at=now,
                models=tuple(data.models),
                cloud=data.cloud,
                limits=tuple(data.limits),
                max_parallel=data.max_parallel,
                expires_at=data.expires_at,
                store_prompts=data.store_prompts,
            )

        token, account = await services.keys.add(wanted)
        return MadeKey(token=token, key=_info(account, services.clock.now()))

    @patch("/{id:str}", summary="Change a gateway key")
    async def change(
        self, services: Given, id: FromPath[str], data: JSONBody[KeyChange]
    ) -> KeyInfo:
        """From the next request on. Its token stays, and what it has spent."""
        asked: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in attrs.asdict(data, recurse=False).items()
            if value is not UNSET
        }
        account = await services.keys.change(id, lambda key: attrs.evolve(key, **asked))
        return _info(account, services.clock.now())

    @delete("/{id:str}", summary="Revoke a gateway key")
    async def remove(self, services: Given, id: FromPath[str]) -> None:
        """At once; answers that run are not cut off."""
        await services.keys.remove(id)


def _info(account: Account, now: datetime) -> KeyInfo:
    key = account.key
    return KeyInfo(
        id=key.id,
        name=key.name,
        created_at=key.created_at,
        last_used_at=account.last_used_at,
        expires_at=key.expires_at,
        expired=key.expired(now),
        models=list(key.models),
        cloud=key.cloud,
        limits=[
            LimitState(
                what=limit.what,
                per=limit.per,
                most=limit.most,
                spent=account.in_period(limit.per, now).of(limit.what),
                reserved=account.reserved.of(limit.what),
                renews_at=renews_at(limit.per, now),
            )
            for limit in key.limits
        ],
        max_parallel=key.max_parallel,
        running=account.running,
        store_prompts=key.store_prompts,
        day=account.in_period("day", now),
        month=account.in_period("month", now),
        total=account.in_period("total", now),
    )
