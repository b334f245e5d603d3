"""Live events over SSE, with ids and resume."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

import msgspec
from litestar import get
from litestar.params import HeaderParameter
from litestar.response import Stream

from cerberus_core.events import Bus
from cerberus_core.values import Event

from .services import Given

PING_S = 15.0
_encode = msgspec.json.Encoder().encode


@get("/api/events", summary="Live events", tags=["box"])
async def events(
    services: Given,
    last_event_id: Annotated[str | None, HeaderParameter(name="last-event-id")] = None,
) -> Stream:
    """Types: `model`, `request`, `record`, `gpus` (after each reading of GPUs and
    meters), and `reload` (read the state anew).

    After `Last-Event-ID` come the events that were missed, or a `reload` if
    there were too many. A comment every 15 s says that the line is alive.
    """
    return Stream(
        _stream(services.bus, services.bus.follow(last_event_id)),
        media_type="text/event-stream",
        headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
    )


async def _stream(bus: Bus, follower: AsyncGenerator[Event]) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    waiting: asyncio.Future[Event] | None = None
    try:
        while True:
            if waiting is None:
                waiting = asyncio.ensure_future(anext(follower))
            done, _ = await asyncio.wait((waiting,), timeout=PING_S)
            if not done:
                yield b": ping\n\n"
                continue
            try:
                event = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield _encode_event(bus, event)
    finally:
        if waiting is not None:
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await waiting
        await follower.aclose()


def _encode_event(bus: Bus, event: Event) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        bus.event_id(event).encode(),
        event.type.encode(),
        _encode(event.data),
    )
