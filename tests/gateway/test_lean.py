"""What the lean client alone does; the rest is in test_clients."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import anyio
import pytest

from cerberus_core.gateway.upstream import ConnectionLost, LeanClient, Target, lean
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[LeanClient]:
    client = LeanClient()
    yield client
    await client.aclose()


def _target(server: ScriptedServer) -> Target:
    return Target(url=f"{server.base_url}/chat/completions", headers={})


async def test_nonsense_is_named(client: LeanClient) -> None:
    nonsense = Reply(raw_head=b"SSH-2.0-OpenSSH\r\n\r\n", framing="close")
    async with ScriptedServer(nonsense) as server:
        with pytest.raises(ConnectionLost, match="not HTTP"):
            await client.open(_target(server), b"{}")


async def test_a_slow_reader_stops_a_fast_engine(client: LeanClient) -> None:
    piece = b"x" * 65536
    async with ScriptedServer(Reply(parts=[piece] * 512)) as server:  # 32 MiB
        answer = await client.open(_target(server), b"{}")
        for _ in range(50):
            await asyncio.sleep(0.001)
        held = sum(map(len, answer._pieces))  # type: ignore[attr-defined]
        assert held < 2 << 20
        total = 0
        while chunk := await answer.read(10):
            total += len(chunk)
        assert total == 512 * 65536
        answer.close()


async def serve(
    *answers: bytes, then_close: bool = False
) -> tuple[asyncio.Server, Target, list[int]]:
    """A server that gives each request on a connection the next of `answers`."""
    counted: list[int] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counted.append(0)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for answer in answers:
                await reader.readuntil(b"\r\n\r\n{}")
                counted[-1] += 1
                writer.write(answer)
                await writer.drain()
            if not then_close:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return server, Target(url=f"http://127.0.0.1:{port}/v1/x", headers={}), counted


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    "endless",
    [
        b"HTTP/1.1 200 OK\r\n" + b"x-a: y\r\n" * 100_000,
        b"HTTP/1.1 200 OK\r\nx-a: " + b"y" * 600_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 30_000,
    ],
)
async def test_a_head_without_an_end_is_given_up(client: LeanClient, endless: bytes) -> None:
    server, target, _ = await serve(endless)
    with anyio.fail_after(5), pytest.raises(ConnectionLost, match="larger than 256 KiB"):
        await client.open(target, b"{}")
    server.close()


@pytest.mark.parametrize("second", [OK, b"HTTP/1.1 500 No\r\nx: y\r\ncontent-length: 0\r\n\r\n"])
async def test_a_second_answer_that_nobody_asked_for_is_nobodys(
    client: LeanClient, second: bytes
) -> None:
    server, target, counted = await serve(OK + second, OK)
    for _ in range(2):
        answer = await client.open(target, b"{}")
        assert (answer.status, answer.headers) == (200, {"content-length": "2"})
        assert await answer.read(5) == b"ok"
        assert await answer.read(5) == b""
        answer.close()
    assert counted == [1, 1]  # its connection was not kept
    server.close()


async def test_a_trailer_is_no_header(client: LeanClient) -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    server, target, _ = await serve(head + b"2\r\nok\r\n0\r\nretry-after: 9\r\n\r\n")
    answer = await client.open(target, b"{}")
    assert await answer.read(5) == b"ok"
    assert await answer.read(5) == b""
    assert answer.headers == {"transfer-encoding": "chunked"}
    answer.close()
    server.close()


async def test_a_request_that_was_thought_about_is_not_sent_again(
    client: LeanClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A kept connection that breaks long after the request: the far side had it.
    monkeypatch.setattr(lean, "RESEND_S", 0.0)
    server, target, counted = await serve(OK, b"", then_close=True)
    (await client.open(target, b"{}")).whole()
    connection = next(iter(client._open))
    connection.close()
    with anyio.fail_after(5), pytest.raises(ConnectionLost):
        await client.open(target, b"{}")
    assert counted == [2]
    server.close()


async def test_pieces_go_past_the_task_only_while_it_waits(client: LeanClient) -> None:
    # One that overtook a piece which the task has in its hands would be out of order.
    first, second = Wait(), Wait()
    parts = [b"a", first, b"b", second, b"c", Wait()]
    async with ScriptedServer(Reply(parts=parts)) as server:
        answer = await client.open(_target(server), b"{}")
        taken: list[bytes] = []

        def take(piece: bytes) -> bool:
            taken.append(piece)
            return True

        assert await answer.read(5) == b"a"
        answer.pass_to(take)
        first.go()
        await second.reached.wait()
        await asyncio.sleep(0.01)  # it has come, and the task was busy
        assert await answer.read(5) == b"b"
        assert taken == []
        second.go()
        assert await answer.read(0.1) is None  # it came by another way
        assert taken == [b"c"]
        answer.close()
