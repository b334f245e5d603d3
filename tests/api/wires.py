"""Requests byte by byte: what no HTTP client would send."""

import asyncio
from typing import Any

import anyio
import attrs

from tests.conftest import Box


@attrs.frozen
class Raw:
    """An answer as it stood on the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


async def raw(
    box: Box, target: str, *, method: str = "GET", host: str | None = "127.0.0.1", lines: Any = ()
) -> Raw:
    """Send a request for `target` as it stands, headers from `lines` alone beside Host."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(box.url.rpartition(":")[2]))
    head = [f"{method} {target} HTTP/1.1", *lines, "connection: close"]
    if host is not None:
        head.insert(1, f"host: {host}")
    writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
    with anyio.fail_after(10):
        answer = await reader.read()
    writer.close()
    first, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = first.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in headers)
    return Raw(
        int(status.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}, body
    )


def bearer(box: Box) -> str:
    return f"authorization: Bearer {box.token}"
