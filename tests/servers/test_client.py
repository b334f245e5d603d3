"""A model server that answers, refuses, talks nonsense, hangs or isn't there."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cerberus_core.errors import Unavailable
from cerberus_core.servers import ModelServer, Refused
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import CLOSE, Wait
from tests.processes import refusing_port

pytestmark = pytest.mark.anyio


class Server(ModelServer):
    program = "Thing"
    plugin = "thing"
    start = "thing serve"


@pytest.fixture
async def server(upstream: ScriptedServer) -> AsyncIterator[Server]:
    made = Server(f"http://127.0.0.1:{upstream.port}", local=True)
    yield made
    await made.aclose()


async def test_an_object_comes_back_and_headers_go_out(
    server: Server, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.json({"a": 1})
    assert await server.ask("/x", {"b": 2}, headers={"authorization": "Bearer k"}) == {"a": 1}
    [asked] = upstream.requests
    assert (asked.path, asked.json(), asked.header("authorization")) == ("/x", {"b": 2}, "Bearer k")
    assert (await server.ask("/v1/models"))["object"] == "list", "without a body it is a GET"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": "no such model"}, "no such model"),
        ({"error": {"message": "no room", "code": 1}}, "no room"),
        ({"error": {"code": 1}}, "it answered 404"),
        ([], "it answered 404"),
    ],
)
async def test_a_no_is_told_in_its_own_words(
    server: Server, upstream: ScriptedServer, body: Any, words: str
) -> None:
    upstream.reply = Reply.json(body, status=404)
    with pytest.raises(Refused) as caught:
        await server.ask("/x", {})
    assert (caught.value.status, str(caught.value)) == (404, words)


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"", b"[" * 100_000])
async def test_nonsense_names_the_setting(
    server: Server, upstream: ScriptedServer, body: bytes
) -> None:
    upstream.reply = Reply(parts=[body], framing="length")
    with pytest.raises(Unavailable, match="What answers /x is no Thing") as caught:
        await server.ask("/x", {})
    assert "plugins.thing.base_url" in (caught.value.hint or "")


async def test_one_that_hangs_breaks_off_or_is_not_there(
    server: Server, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply(parts=[Wait()])
    with pytest.raises(Unavailable, match=r"did not answer /x within 0\.05 s"):
        await server.ask("/x", {}, limit_s=0.05)
    upstream.reply = Reply(parts=[b"{", CLOSE])
    with pytest.raises(Unavailable, match="broke off"):
        await server.ask("/x", {})
    with refusing_port() as port:
        down = Server(f"http://127.0.0.1:{port}", local=True)
        with pytest.raises(Unavailable, match="Thing does not run") as caught:
            await down.ask("/x")
        assert (caught.value.code, caught.value.hint) == (
            "thing_down", "Start it: `thing serve`, or set plugins.thing.base_url.",
        )  # fmt: skip
        await down.aclose()


async def test_lines_come_one_by_one(server: Server, upstream: ScriptedServer) -> None:
    wait = Wait()
    upstream.reply = Reply(parts=[b'{"n":', b' 1}\n\n{"n": 2}', wait, b'\n{"n": 3}'])
    told = server.lines("/x", {}, silence_s=5)
    assert await anext(told) == {"n": 1}
    await wait.reached.wait()
    wait.go()
    assert [line async for line in told] == [{"n": 2}, {"n": 3}]
    upstream.reply = Reply(parts=[b'{"n": 1}\n', Wait()])
    told = server.lines("/x", {}, silence_s=0.05)
    async with asyncio.timeout(5):
        assert await anext(told) == {"n": 1}
        with pytest.raises(Unavailable, match="did not answer /x within"):
            await anext(told)
