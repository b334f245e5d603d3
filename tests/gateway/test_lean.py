"""What the lean client alone does; the rest is in test_clients."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cerberus_core.gateway.upstream import ConnectionLost, LeanClient, Target
from cerberus_core.testing import Reply, ScriptedServer

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
