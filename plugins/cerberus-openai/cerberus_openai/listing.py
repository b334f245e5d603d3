"""`GET /models` of an endpoint that may send anything, for any time."""

import asyncio
import json
import zlib
from typing import Any

import httpx

MOST_BYTES = 8 << 20
"""Of a list, packed and unpacked."""
MOST_ROWS = 10_000
"""Further ones are left out."""


class BadList(Exception):
    """What came is no list of models; the message follows the address."""


async def fetch(
    url: str, headers: dict[str, str], *, limit_s: float
) -> tuple[int, list[dict[str, Any]]]:
    """The status and the rows that have a name; none where the key was refused (401, 403).

    Raises `BadList`, and OSError where no answer came.
    """
    try:
        async with asyncio.timeout(limit_s):
            status, encoding, body = await _get(url, {**headers, "accept-encoding": "identity"})
    except TimeoutError:
        raise TimeoutError(f"no list of models within {limit_s:g} s") from None
    except httpx.HTTPError as error:
        raise OSError(str(error) or type(error).__name__) from None
    if status in (401, 403):
        return status, []
    if status != 200:
        raise BadList(f"answered {status} with no model list")
    return status, await asyncio.to_thread(lambda: _rows(_unpacked(body, encoding)))


async def _get(url: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
    async with (
        httpx.AsyncClient(timeout=None) as client,  # the caller has one for the whole
        client.stream("GET", url, headers=headers) as answer,
    ):
        encoding = answer.headers.get("content-encoding", "").strip().lower()
        if answer.status_code != 200:
            return answer.status_code, "", b""
        body = bytearray()
        async for piece in answer.aiter_raw():
            body += piece
            if len(body) > MOST_BYTES:
                raise _too_long()
        return answer.status_code, encoding, bytes(body)


def _unpacked(body: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise BadList(f"answered in the encoding {encoding!r}, which nobody asked for")
    try:
        plain = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise BadList(f"answered with broken compressed data: {error}") from None
    if len(plain) > MOST_BYTES:
        raise _too_long()
    return plain


def _rows(body: bytes) -> list[dict[str, Any]]:
    try:
        data = json.loads(body)["data"]
        return [row for row in data[:MOST_ROWS] if _is_name(row["id"])]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadList("answered 200 with no model list") from None


def _is_name(value: object) -> bool:
    """A name that can be shown and asked for: no control characters, not endless."""
    return isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable()


def _too_long() -> BadList:
    return BadList(f"answered with a list of models of more than {MOST_BYTES >> 20} MiB")
