"""Endpoints whose model list has no end, no measure or no sense."""

import asyncio
import gzip
import json
import tracemalloc
import zlib
from typing import Any

import anyio
import pytest
from cerberus_openai import backend as module
from cerberus_openai.backend import OpenAIBackend
from cerberus_openai.listing import MOST_BYTES, MOST_ROWS
from cerberus_openai.settings import EndpointSettings

from cerberus_core.errors import Unavailable

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def make(base_url: str) -> OpenAIBackend:
    return OpenAIBackend("up", EndpointSettings(base_url=base_url, api_key="sk-1"))


async def refusal(base_url: str) -> Unavailable:
    with anyio.fail_after(10), pytest.raises(Unavailable) as caught:
        await make(base_url).list()
    assert caught.value.hint
    return caught.value


async def test_a_list_without_an_end_is_cut_off(listing: Any) -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD + b'\r\n{"data": [')
        while True:
            writer.write(b'{"id": "m"},' * 5000)
            sent += 60_000
            await writer.drain()

    listing.stream = endless
    assert "more than 8 MiB" in str(await refusal(listing.base_url))
    assert sent < 3 * MOST_BYTES


@pytest.mark.parametrize("name", ["gzip", "deflate"])
async def test_a_packed_list_is_read_and_a_bomb_is_not(listing: Any, name: str) -> None:
    pack = gzip.compress if name == "gzip" else zlib.compress
    listing.more = f"content-encoding: {name}\r\n"
    listing.body = pack(b'{"data": [{"id": "m"}]}')
    assert [model.name for model in await make(listing.base_url).list()] == ["m"]
    assert listing.asked[0]["accept-encoding"] == "identity"
    listing.body = pack(b" " * (200 << 20))
    tracemalloc.start()
    try:
        assert "more than 8 MiB" in str(await refusal(listing.base_url))
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [("br", b"\x0b", "'br', which nobody asked for"), ("gzip", b"no gzip", "broken")],
)
async def test_what_cant_be_unpacked_is_told(
    listing: Any, encoding: str, body: bytes, words: str
) -> None:
    listing.more = f"content-encoding: {encoding}\r\n"
    listing.body = body
    assert words in str(await refusal(listing.base_url))


async def test_of_a_list_of_300_000_the_first_ten_thousand_are_taken(listing: Any) -> None:
    listing.body = json.dumps(
        {"data": [{"id": f"m{number}"} for number in range(300_000)]}
    ).encode()
    assert len(listing.body) < MOST_BYTES
    models = await make(listing.base_url).list()
    assert len(models) == MOST_ROWS
    assert models[-1].name == f"m{MOST_ROWS - 1}"


async def test_one_that_trickles_for_ever_is_given_up(
    listing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIST_LIMIT_S", 0.3)

    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    listing.stream = trickle
    assert "no list of models within 0.3 s" in str(await refusal(listing.base_url))


async def test_headers_without_an_end_are_given_up(listing: Any) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while True:
            writer.write(b"x-more: and more\r\n" * 100)
            await writer.drain()

    listing.stream = endless
    assert "no answer from" in str(await refusal(listing.base_url))


@pytest.mark.parametrize("where", ["/v1/models", "http://[", "\x01", "//\xff:99999/"])
async def test_a_redirect_is_not_followed_wherever_it_leads(listing: Any, where: str) -> None:
    listing.status = 302
    listing.more = f"location: {where}\r\n"
    await refusal(listing.base_url)
    assert len(listing.asked) == 1


@pytest.mark.parametrize(
    "body", [b"[" * 1_000_000, b'{"data": ' + b"9" * 1_000_000 + b"}", b'{"data": {"id": "m"}}']
)
async def test_json_without_sense_is_told(listing: Any, body: bytes) -> None:
    listing.body = body
    assert "answered 200 with no model list" in str(await refusal(listing.base_url))
