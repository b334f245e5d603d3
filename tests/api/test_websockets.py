"""U02: no route speaks WebSocket yet, and the guard is ready for the first that does."""

import asyncio
import socket
from typing import Any

import anyio
import pytest
import uvicorn

from cerberus_core.access import Hosts
from cerberus_core.api import protocol
from cerberus_core.api.guard import Guard
from cerberus_core.platform import SystemClock
from tests.api.direct import TOKEN, handshake
from tests.api.wires import raw
from tests.conftest import Box

pytestmark = pytest.mark.anyio


async def terminal(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The application of tomorrow: accepts whatever comes through."""
    await send({"type": "websocket.accept"})


def guarded(shell: tuple[str, ...] = ()) -> Guard:
    hosts = Hosts(bind="127.0.0.1")
    return Guard(terminal, hosts=hosts, token=TOKEN, clock=SystemClock(), shell=shell)


GOOD = {"authorization": f"Bearer {TOKEN}"}
PATH = "/api/sessions/s1/terminal"


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1:77331",
        "http://127.0.0.1:7733.evil.example",
    ],
)
async def test_u02_a_foreign_page_is_refused_before_accept_even_with_the_token(origin: str) -> None:
    sent = await handshake(guarded(), PATH, {**GOOD, "origin": origin})
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert sent[0]["code"] == 4403


async def test_u02_a_program_with_the_token_and_our_own_page_come_in() -> None:
    for headers in (GOOD, {**GOOD, "origin": "http://127.0.0.1:7733"}):
        sent = await handshake(guarded(), PATH, headers)
        assert [message["type"] for message in sent] == ["websocket.accept"]


async def test_u02_neither_no_token_nor_a_foreign_host_comes_in() -> None:
    for headers in ({}, {"authorization": "Bearer no"}, {**GOOD, "host": "evil.example"}):
        sent = await handshake(guarded(), PATH, headers)
        assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("host", ["evil.example:7733", "localhost.evil.example", ""])
async def test_u01_a_name_pointed_at_us_is_refused_though_its_origin_is_the_same(
    host: str,
) -> None:
    sent = await handshake(guarded(), PATH, {**GOOD, "host": host, "origin": f"http://{host}"})
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_u02_the_files_of_the_page_are_public_over_http_alone() -> None:
    sent = await handshake(guarded(shell=("/",)), "/", {})
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("path", [PATH, "/v1/chat/completions", "/", "/api/events", "/healthz"])
async def test_u02_todays_application_accepts_no_websocket(app: Any, path: str) -> None:
    sent = await handshake(app, path, GOOD)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_u02_a_handshake_over_the_wire_is_plain_http_and_judged_as_such(box: Box) -> None:
    upgrade = [
        "upgrade: websocket",
        "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
        "sec-websocket-version: 13",
    ]
    foreign = await raw(box, "/api/status", lines=[*upgrade, "origin: https://evil.example"])
    none = await raw(box, "/api/status", lines=upgrade)
    assert (foreign.status, none.status) == (403, 401)


class Echo(asyncio.Protocol):
    """A WebSocket of tomorrow, as uvicorn makes them."""

    def __init__(self, **_: Any) -> None:
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n")

    def data_received(self, data: bytes) -> None:
        if not data.startswith(b"GET "):  # the head is handed on as well
            self.transport.write(data)


async def test_the_limits_of_http_end_where_another_protocol_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "BODY_S", 0.05)
    monkeypatch.setattr(protocol, "HEAD_S", 0.05)
    config = uvicorn.Config(
        terminal, http=protocol.Protocol, ws=Echo, lifespan="off", timeout_keep_alive=0, port=0
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(
            b"GET /x HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-key: x\r\nsec-websocket-version: 13\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.15)  # three times as long as any limit
        writer.write(b"still there?")
        with anyio.fail_after(5):
            assert await reader.read(100) == b"still there?"
        writer.close()
        server.should_exit = True
        await serving
