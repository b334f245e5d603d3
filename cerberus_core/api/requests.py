"""Requests, running and finished, and their sums."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import anyio.to_thread
import attrs
import msgspec
from litestar import Controller, get
from litestar.params import FromPath, FromQuery, QueryParameter

from cerberus_core.errors import NotFound
from cerberus_core.usage import Prompt
from cerberus_core.values import Aggregate, KeyAggregate, LiveRequest, Record

from .services import Given


@attrs.frozen(kw_only=True)
class Requests:
    """Both newest first."""

    live: list[LiveRequest]
    recent: list[Record]


class Receipt(Record, frozen=True, kw_only=True):
    """A record, and what it takes to read it."""

    currency: str
    """Of `cost` and `energy_cost`."""
    energy_cost: float | None
    """Money for `energy_j`, by the price of electricity in the settings."""
    prompt_kept: bool
    """Its prompt can be asked for."""


@attrs.frozen(kw_only=True)
class Usage:
    since: datetime
    models: list[Aggregate]
    """Empty where it was asked for by key."""
    keys: list[KeyAggregate]
    """Empty where it was not."""
    price_per_kwh: float | None = None
    """What electricity costs, where it is set."""
    currency: str = "EUR"


class RequestsController(Controller):
    path = "/api"
    tags = ["requests"]

    @get("/requests", summary="Running and last requests", sync_to_thread=False)
    def requests(
        self, services: Given, limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 50
    ) -> Requests:
        """What is being answered and what was answered last."""
        return Requests(
            live=services.gateway.requests.values(), recent=services.store.recent(limit)
        )

    @get("/requests/{request_id:str}", summary="One request")
    async def request(self, services: Given, request_id: FromPath[str]) -> Receipt:
        """The record of a finished request: its route, what it waited for, what it cost."""
        record = await anyio.to_thread.run_sync(services.store.find, request_id)
        if record is None:
            raise NotFound(
                f"There is no finished request {request_id!r}",
                hint="`cerberus usage --last 50` shows the last ones.",
            )
        kept = await anyio.to_thread.run_sync(services.prompts.find, request_id)
        energy = services.settings.config.energy
        energy_cost = None
        if record.energy_j is not None and energy.price_per_kwh is not None:
            energy_cost = record.energy_j / 3.6e6 * energy.price_per_kwh
        return Receipt(
            **msgspec.structs.asdict(record),
            currency=energy.currency,
            energy_cost=energy_cost,
            prompt_kept=kept is not None,
        )

    @get("/requests/{request_id:str}/prompt", summary="What one request asked")
    async def prompt(self, services: Given, request_id: FromPath[str]) -> Prompt:
        """Prompt and answer of a request, where its key asks for them to be kept."""
        prompt = await anyio.to_thread.run_sync(services.prompts.find, request_id)
        if prompt is None:
            raise NotFound(
                f"No prompt of the request {request_id!r} is kept",
                hint="They are for keys with `--store-prompts` alone, and not for ever.",
            )
        return prompt

    @get("/usage", summary="Usage by model or by key")
    async def usage(
        self,
        services: Given,
        since: FromQuery[datetime | None] = None,
        by: FromQuery[Literal["model", "key"]] = "model",
    ) -> Usage:
        """Sums and means; the last 30 days unless `since` is given."""
        start = since or services.clock.now() - timedelta(days=30)
        if start.tzinfo is None:
            start = start.replace(tzinfo=UTC)
        models: list[Aggregate] = []
        keys: list[KeyAggregate] = []
        if by == "key":
            keys = await anyio.to_thread.run_sync(services.store.aggregate_keys, start)
        else:
            models = await anyio.to_thread.run_sync(services.store.aggregate, start)
        energy = services.settings.config.energy
        return Usage(
            since=start,
            models=models,
            keys=keys,
            price_per_kwh=energy.price_per_kwh,
            currency=energy.currency,
        )
