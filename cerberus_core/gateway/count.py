"""How long a Messages request would be: what its endpoint says, else an estimate."""

import asyncio

import msgspec

from cerberus_core.engines import Manager
from cerberus_core.errors import CerberusError
from cerberus_core.values import Endpoint, ModelInfo

from .clients import Clients
from .decode import PLAIN, Decoder
from .reading import Reading
from .request import Parsed
from .upstream import ConnectionLost
from .wires.messages_over_chat import estimate_tokens

PATH = "/v1/messages/count_tokens"
LIMIT_S = 10.0
"""Agents count before each turn: an endpoint that takes longer is not waited for."""


class _Told(msgspec.Struct):
    input_tokens: int


async def input_tokens(parsed: Parsed, model: ModelInfo, manager: Manager, clients: Clients) -> int:
    """Nothing is loaded for it. Raises `BadRequest`, `Unsupported`."""
    told = None
    if not model.managed:
        try:
            async with asyncio.timeout(LIMIT_S):
                told = await _told(parsed, model, manager, clients)
        except (TimeoutError, ConnectionLost, CerberusError):
            told = None
    return estimate_tokens(parsed.decoded()) if told is None else told


async def _told(parsed: Parsed, model: ModelInfo, manager: Manager, clients: Clients) -> int | None:
    lease = await manager.acquire(model.id)
    try:
        if "messages" not in lease.endpoint.wires:
            return None
        return await _asked(parsed, lease.endpoint, clients)
    finally:
        lease.release()


async def _asked(parsed: Parsed, endpoint: Endpoint, clients: Clients) -> int | None:
    client, target = clients.way_to(endpoint, PATH, stream=False)
    answer = await client.open(target, parsed.body_for(endpoint.model, stream=False), LIMIT_S)
    try:
        encoding = answer.headers.get("content-encoding")
        decoder = Decoder(encoding) if encoding else PLAIN
        data = await Reading(name=endpoint.model, silence_s=LIMIT_S).whole(answer, decoder)
    finally:
        answer.close()
    try:
        told = msgspec.json.decode(data, type=_Told).input_tokens
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return told if answer.status == 200 and told >= 0 else None
