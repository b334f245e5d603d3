"""What Prometheus reads."""

from typing import Any

import anyio
from anyio.to_thread import run_sync as in_thread
from litestar import Request, Response, get

from cerberus_core.metrics import Moment, Tallies
from cerberus_core.values import PoolUse

from .gpus import latest
from .services import Given, Services

LOOK_WAIT_S = 0.5
"""A driver that takes longer costs the page its news, and nothing else."""


@get("/metrics", include_in_schema=False)
async def metrics(services: Given, request: Request[Any, Any, Any]) -> Response[bytes]:
    """Counted in this process alone; asks no backend for its models."""
    moment = Moment(
        version=services.version,
        started_unix=services.started_at.timestamp(),
        currency=services.settings.config.energy.currency,
        in_flight=len(services.gateway.requests),
        models=services.manager.known(),
        gpus=await latest(services, LOOK_WAIT_S),
        pools=await _pools(services),
        evictions=dict(services.manager.evictions),
        refusals=dict(services.keys.refusals),
        records_dropped=services.store.dropped,
    )
    accept = request.headers.get("accept", "")
    body, media_type = await in_thread(_page, services.tallies.copy(), moment, accept)
    return Response(body, media_type=media_type)


async def _pools(services: Services) -> list[PoolUse]:
    with anyio.move_on_after(LOOK_WAIT_S):
        return await services.manager.pools()
    return []


def _page(tallies: Tallies, moment: Moment, accept: str) -> tuple[bytes, str]:
    from cerberus_core.metrics.exposition import (
        page,
    )  # imports the client: in this thread, at first use

    return page(tallies, moment, accept)
