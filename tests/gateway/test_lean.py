"""The lean client on real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import anyio
import pytest

from cerberus_core.gateway.upstream import ConnectionLost, LeanClient, Request
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import CLOSE, RESET, Wait

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[LeanClient]:
    client = LeanClient()
    yield client
    await client.aclose()


async def ask(client: LeanClient, server: ScriptedServer, body: bytes = b"{}") -> bytes:
    """The whole body of one answer."""
    answer = await client.open(_request(server, body))
    out = b""
    try:
        while chunk := await answer.read(5):
            out += chunk
    finally:
        answer.close()
    return out


def _request(server: ScriptedServer, body: bytes = b"{}") -> Request:
    return Request(url=f"{server.base_url}/chat/completions", headers={"x-a": "b"}, body=body)


async def test_a_connection_is_used_again(client: LeanClient) -> None:
    async with ScriptedServer(Reply.json({"a": 1})) as server:
        for _ in range(5):
            assert await ask(client, server) == b'{"a": 1}'
        assert server.connections == 1
        assert server.requests[0].header("x-a") == "b"


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_every_framing_is_read_to_its_end(client: LeanClient, framing: str) -> None:
    async with ScriptedServer() as server:
        server.reply = Reply(parts=[b"one", b"two"], framing=framing)  # type: ignore[arg-type]
        assert await ask(client, server) == b"onetwo"
        assert await ask(client, server) == b"onetwo"


async def test_a_connection_that_was_closed_while_idle_is_replaced(client: LeanClient) -> None:
    async with ScriptedServer(Reply.json({})) as server:
        await ask(client, server)
        port = server.port
    async with ScriptedServer(Reply.json({"b": 2})) as other:
        assert await ask(client, other) == b'{"b": 2}'
    assert port != other.requests  # the first server is gone; nothing of it is left to use
    with pytest.raises(ConnectionLost) as caught:
        await client.open(Request(url=f"http://127.0.0.1:{port}/v1/x", headers={}, body=b""))
    assert caught.value.before_answer


async def test_a_request_that_meets_the_close_is_sent_once_more(client: LeanClient) -> None:
    # The far side closes the kept connection the moment the second request arrives.
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        await reader.readuntil(b"\r\n\r\n{}")
        seen += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/x"
    for _ in range(2):
        answer = await client.open(Request(url=url, headers={}, body=b"{}"))
        assert await answer.read(5) == b"ok"
        answer.close()
    assert seen == 2
    server.close()
    await client.aclose()


@pytest.mark.parametrize("ending", [RESET, CLOSE])
async def test_a_broken_answer_is_lost_in_the_middle(client: LeanClient, ending: object) -> None:
    async with ScriptedServer(Reply(parts=[b"half", ending])) as server:
        answer = await client.open(_request(server))
        with pytest.raises(ConnectionLost) as caught:  # noqa: PT012 - how many reads is open
            while await answer.read(5) != b"":
                pass
        assert not caught.value.before_answer
        answer.close()


async def test_nonsense_is_no_answer(client: LeanClient) -> None:
    async with ScriptedServer(
        Reply(raw_head=b"SSH-2.0-OpenSSH\r\n\r\n", framing="close")
    ) as server:
        with pytest.raises(ConnectionLost, match="not HTTP"):
            await client.open(_request(server))


async def test_a_read_that_waits_too_long_says_so_and_loses_nothing(client: LeanClient) -> None:
    wait = Wait()
    async with ScriptedServer(Reply(parts=[wait, b"late"])) as server:
        answer = await client.open(_request(server))
        assert await answer.read(0.01) is None
        wait.go()
        assert await answer.read(5) == b"late"
        answer.close()


async def test_a_head_that_does_not_come_times_out_and_hangs_up(client: LeanClient) -> None:
    wait = Wait()
    async with ScriptedServer(Reply(raw_head=b"", parts=[wait])) as server:
        with pytest.raises(TimeoutError):
            await client.open(_request(server), timeout=0.05)
        with anyio.fail_after(5):
            await server.requests[0].closed.wait()


async def test_a_slow_reader_stops_a_fast_engine(client: LeanClient) -> None:
    piece = b"x" * 65536
    async with ScriptedServer(Reply(parts=[piece] * 512)) as server:  # 32 MiB
        answer = await client.open(_request(server))
        for _ in range(50):
            await asyncio.sleep(0.001)
        held = sum(map(len, answer._pieces))  # type: ignore[attr-defined]
        assert held < 2 << 20
        total = 0
        while chunk := await answer.read(10):
            total += len(chunk)
        assert total == 512 * 65536
        answer.close()


async def test_hints_before_the_answer_are_passed_over(client: LeanClient) -> None:
    head = (
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    )
    async with ScriptedServer(Reply(raw_head=head, parts=[b"ok"], framing="length")) as server:
        assert await ask(client, server) == b"ok"
        assert await ask(client, server) == b"ok"
