"""The fakes' own socket: what it leaves open would be another test's failure."""

import asyncio
import gc
import socket
import warnings

import pytest

from cerberus_core.testing import Listener


@pytest.mark.parametrize("rounds", range(8))
def test_a_connection_in_the_making_is_closed_too(rounds: int) -> None:
    """Whether its task has begun or not: the loop is somewhere else after each round."""

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def end_early() -> None:
        async with Listener(serve) as listener:
            client.connect(("127.0.0.1", listener.port))  # the kernel's queue takes it at once
            for _ in range(rounds):
                await asyncio.sleep(0)
        assert listener.connections == 0

    with warnings.catch_warnings(record=True) as told, socket.socket() as client:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(end_early())
        gc.collect()
    assert [str(one.message) for one in told if "unclosed" in str(one.message)] == []


@pytest.mark.anyio
async def test_what_was_written_arrives_and_the_end_is_told() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 100_000)

    async with Listener(serve) as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        assert len(await reader.read()) == 100_000
        writer.close()
    await listener.stop()


@pytest.mark.anyio
async def test_a_client_that_leaves_is_no_error() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)

    async with Listener(serve) as listener:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.close()
        while listener.connections:
            await asyncio.sleep(0)
