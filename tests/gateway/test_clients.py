"""Both clients keep the contract of `Client` and `Answer`, on real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from cerberus_core.gateway.clients import Clients
from cerberus_core.gateway.upstream import Client, ConnectionLost, LeanClient, RemoteClient, Target
from cerberus_core.testing import Received, Reply, ScriptedServer
from cerberus_core.testing.scripted import CLOSE, RESET, Wait
from cerberus_core.values import Endpoint

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[LeanClient, RemoteClient], ids=["lean", "remote"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    client: Client = request.param()
    yield client
    await client.aclose()


async def ask(client: Client, server: ScriptedServer, body: bytes = b"{}") -> bytes:
    """The whole body of one answer."""
    answer = await client.open(_target(server), body)
    out = b""
    try:
        while chunk := await answer.read(5):
            out += chunk
    finally:
        answer.close()
    return out


def _target(server: ScriptedServer) -> Target:
    return Target(url=f"{server.base_url}/chat/completions", headers={"x-a": "b"})


async def test_a_connection_is_used_again(client: Client) -> None:
    peers = 0

    def count(_: Received) -> Reply:
        nonlocal peers
        peers = max(peers, server.connections)
        return Reply.json({"a": 1})

    async with ScriptedServer(count) as server:
        for _ in range(5):
            assert await ask(client, server) == b'{"a": 1}'
        assert peers == server.connections == 1
        assert server.requests[0].header("x-a") == "b"


async def test_a_request_that_meets_the_close_is_sent_once_more(client: Client) -> None:
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
        answer = await client.open(Target(url=url, headers={}), b"{}")
        assert await answer.read(5) == b"ok"
        answer.close()
    assert seen == 2
    server.close()
    await client.aclose()


@pytest.mark.parametrize("how", [CLOSE, RESET], ids=["closed", "reset"])
@pytest.mark.parametrize("came", [b"H", b"HTTP/1.1 200 OK\r\ncontent-le"], ids=["byte", "head"])
async def test_a_request_that_was_answered_in_part_is_never_sent_again(
    client: Client, came: bytes, how: object
) -> None:
    replies = [Reply.json({}), Reply(raw_head=came, parts=[how])]
    async with ScriptedServer(lambda _: replies[len(server.requests) - 1]) as server:
        await ask(client, server)
        with pytest.raises(ConnectionLost) as caught:
            await ask(client, server, b'{"again": 0}')
        assert caught.value.before_answer
        assert len(server.requests) == 2


@pytest.mark.parametrize("how", [CLOSE, RESET], ids=["closed", "reset"])
async def test_a_request_on_a_fresh_connection_is_sent_once(client: Client, how: object) -> None:
    async with ScriptedServer(Reply(raw_head=b"", parts=[how])) as server:
        with pytest.raises(ConnectionLost):
            await ask(client, server)
        assert len(server.requests) == 1


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_every_framing_is_read_to_its_end(client: Client, framing: Any) -> None:
    async with ScriptedServer() as server:
        server.reply = Reply(parts=[b"one", b"two"], framing=framing)
        assert await ask(client, server) == b"onetwo"
        assert await ask(client, server) == b"onetwo"


@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_an_empty_answer_is_at_its_end_at_once(client: Client, framing: Any) -> None:
    async with ScriptedServer(Reply(framing=framing)) as server:
        assert await ask(client, server) == b""
        assert await ask(client, server) == b""


async def test_status_and_headers_are_told_with_names_in_lower_case(client: Client) -> None:
    reply = Reply(status=429, headers=[("Retry-After", "7"), ("X-B", "1")], framing="length")
    async with ScriptedServer(reply) as server:
        answer = await client.open(_target(server), b"{}")
        assert answer.status == 429
        assert answer.headers["retry-after"] == "7"
        answer.close()


async def test_a_large_request_arrives_whole(client: Client) -> None:
    async with ScriptedServer(Reply.json({})) as server:
        body = b"x" * (8 << 20)
        await ask(client, server, body)
        assert server.requests[0].body == body
        assert server.requests[0].header("content-length") == str(len(body))


async def test_an_address_where_nobody_listens_is_lost_before_the_answer(client: Client) -> None:
    async with ScriptedServer(Reply.json({})) as server:
        await ask(client, server)
        target = _target(server)
    with anyio.fail_after(5), pytest.raises(ConnectionLost) as caught:
        await client.open(target, b"{}")
    assert caught.value.before_answer


@pytest.mark.parametrize("ending", [RESET, CLOSE])
async def test_a_broken_answer_is_lost_in_the_middle(client: Client, ending: object) -> None:
    async with ScriptedServer(Reply(parts=[b"half", ending])) as server:
        answer = await client.open(_target(server), b"{}")
        with pytest.raises(ConnectionLost) as caught:  # noqa: PT012 - how many reads is open
            while await answer.read(5) != b"":
                pass
        assert not caught.value.before_answer
        answer.close()


async def test_nonsense_is_no_answer(client: Client) -> None:
    nonsense = Reply(raw_head=b"SSH-2.0-OpenSSH\r\n\r\n", framing="close")
    async with ScriptedServer(nonsense) as server:
        with pytest.raises(ConnectionLost) as caught:
            await client.open(_target(server), b"{}")
        assert caught.value.before_answer


async def test_a_read_that_waits_too_long_says_so_and_loses_nothing(client: Client) -> None:
    wait = Wait()
    async with ScriptedServer(Reply(parts=[b"early", wait, b"late"])) as server:
        answer = await client.open(_target(server), b"{}")
        assert await answer.read(5) == b"early"
        assert await answer.read(0.01) is None
        wait.go()
        assert await answer.read(5) == b"late"
        assert await answer.read(5) == b""
        answer.close()


async def test_a_head_that_does_not_come_times_out_and_hangs_up(client: Client) -> None:
    async with ScriptedServer(Reply(raw_head=b"", parts=[Wait()])) as server:
        with pytest.raises(TimeoutError):
            await client.open(_target(server), b"{}", timeout=0.05)
        with anyio.fail_after(1):
            await (await server.arrived()).closed.wait()


async def test_g15_cancelling_a_request_hangs_up(client: Client) -> None:
    async with ScriptedServer(Reply(raw_head=b"", parts=[Wait()])) as server:
        opening = asyncio.ensure_future(client.open(_target(server), b"{}"))
        received = await server.arrived()
        opening.cancel()
        with anyio.fail_after(1):
            await received.closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await opening


async def test_g15_closing_in_the_middle_hangs_up(client: Client) -> None:
    async with ScriptedServer(Reply(parts=[b"some", Wait()])) as server:
        answer = await client.open(_target(server), b"{}")
        assert await answer.read(5) == b"some"
        reading = asyncio.ensure_future(answer.read(30))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        answer.close()
        with anyio.fail_after(1):
            await server.requests[0].closed.wait()


async def test_g19_a_redirect_is_handed_back_and_its_target_never_asked(client: Client) -> None:
    async with ScriptedServer() as target, ScriptedServer() as server:
        location = ("location", f"{target.base_url}/chat/completions")
        server.reply = Reply(status=307, headers=[location], framing="length")
        answer = await client.open(_target(server), b"{}")
        assert answer.status == 307
        answer.close()
        assert len(server.requests) == 1
        assert (target.requests, target.connections) == ([], 0)


async def test_g19_cookies_are_not_kept(client: Client) -> None:
    async with ScriptedServer(Reply.json({}, headers=[("set-cookie", "a=b; Path=/")])) as server:
        await ask(client, server)
        await ask(client, server)
        assert [received.header("cookie") for received in server.requests] == [None, None]


async def test_g19_nothing_but_the_endpoints_headers_and_ours_is_sent(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A login that the user keeps for other programs must not replace the key.
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1\nlogin me\npassword secret\ndefault login me password x\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with ScriptedServer(Reply.json({})) as server:
        for own in ({"authorization": "Bearer sk-1"}, {}):
            place = Endpoint(base_url=server.base_url, model="m", backend="up", headers=own)
            _, target = Clients().way_to(place, "/v1/x", stream=False)
            answer = await client.open(target, b"{}")
            answer.close()
            sent = dict(server.requests[-1].headers)
            assert sent == {
                **target.headers,
                "host": f"127.0.0.1:{server.port}",
                "content-length": "2",
            }


async def test_a_proxy_of_the_environment_is_used_except_where_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedServer(Reply.json({})) as proxy, ScriptedServer(Reply.json({})) as server:
        monkeypatch.setenv("http_proxy", f"http://me:pw@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        client = RemoteClient()
        assert await ask(client, server) == b"{}"
        assert proxy.requests[0].path == f"{server.base_url}/chat/completions"
        assert (proxy.requests[0].header("proxy-authorization") or "").startswith("Basic ")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        await ask(client, server)
        await client.aclose()
        assert (len(proxy.requests), len(server.requests)) == (1, 1)


async def test_g22_a_body_is_handed_on_as_it_came(client: Client) -> None:
    headers = [("content-type", "application/json"), ("content-encoding", "gzip")]
    async with ScriptedServer(
        Reply(headers=headers, parts=[b"\x1f\x8bnot"], framing="length")
    ) as server:
        assert await ask(client, server) == b"\x1f\x8bnot"


async def test_hints_before_the_answer_are_passed_over(client: Client) -> None:
    head = (
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    )
    async with ScriptedServer(Reply(raw_head=head, parts=[b"ok"], framing="length")) as server:
        assert await ask(client, server) == b"ok"
        assert await ask(client, server) == b"ok"


async def test_closing_the_client_hangs_up_everything(client: Client) -> None:
    async with ScriptedServer(Reply(parts=[b"some", Wait()])) as server:
        answer = await client.open(_target(server), b"{}")
        await client.aclose()
        with anyio.fail_after(1):
            await server.requests[0].closed.wait()
        answer.close()
