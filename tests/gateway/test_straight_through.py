"""Chunks that pass from socket to socket without the task: in order, metered, limited."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from cerberus_core.gateway.stream import OpenAIStream
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_chunks, chunk, sse
from tests.api.test_protocol import STREAM, connect, request_bytes
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream)) as box:
        yield box


@pytest.fixture
def straight(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events went straight through, one number for each time."""
    passed: list[int] = []
    real = OpenAIStream.passed

    def noted(self: OpenAIStream) -> None:
        passed.append(self._untouched_count)
        real(self)

    monkeypatch.setattr(OpenAIStream, "passed", noted)
    return passed


def numbered(count: int, padding: int = 0) -> list[bytes]:
    return [sse(chunk({"content": f"<{n}>" + "x" * padding})) for n in range(count)]


async def test_a_slow_client_gets_every_piece_in_order(
    box: Box, upstream: ScriptedServer, straight: list[int]
) -> None:
    count = 1000
    upstream.reply = Reply.stream([*numbered(count, 4000), sse(chunk({}, finish="stop"))])
    reader, writer = await connect(box)
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)  # so that both ends fill up
    writer.write(request_bytes(box, STREAM))
    text = bytearray()
    with anyio.fail_after(30):
        while b"[DONE]" not in text[-200:]:
            text += await reader.read(1 << 20)
            await asyncio.sleep(0.001)
    writer.close()
    assert [int(n) for n in re.findall(rb"<(\d+)>", text)] == list(range(count))
    assert (await box.record()).completion_tokens == count
    assert sum(straight) > 1


async def test_a_paced_stream_is_metered_as_ever(
    box: Box, upstream: ScriptedServer, straight: list[int]
) -> None:
    waits = [Wait() for _ in range(5)]
    parts: list[Any] = [piece for pair in zip(numbered(5), waits, strict=True) for piece in pair]
    usage = {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10}
    upstream.reply = Reply.stream([*parts, *chat_chunks([], usage=usage)])
    reader, writer = await connect(box)
    writer.write(request_bytes(box, STREAM))
    with anyio.fail_after(5):
        for n, wait in enumerate(waits):
            assert b"<%d>" % n in await reader.readuntil(b"\n\n\r\n")
            wait.go()
        await reader.readuntil(b"[DONE]")
    writer.close()
    record = await box.record()
    assert (record.prompt_tokens, record.completion_tokens) == (3, 7)
    assert record.tok_per_sec is not None
    assert straight == [1, 1, 1, 1]  # all but the first, whose time is noted


async def test_g18_silence_is_counted_from_the_last_piece(
    start_box: StartBox, upstream: ScriptedServer, straight: list[int]
) -> None:
    gateway = "[gateway]\nsilence_s = 0.5\nkeepalive_s = 0.1\n"
    async with start_box(endpoint(upstream) + gateway) as box:
        waits = [Wait() for _ in range(6)]
        pieces = numbered(6)
        upstream.reply = Reply.stream(
            [part for pair in zip(pieces, waits, strict=True) for part in pair]
        )

        async def pace() -> None:
            for wait in waits[:-1]:
                await asyncio.sleep(0.15)
                wait.go()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pace)
            answer = await box.http.post("/v1/chat/completions", json=STREAM)
        assert "<5>" in answer.text  # 0.75 s in, though the limit is 0.5
        assert ": keep-alive" in answer.text
        error = json.loads(answer.text.strip().rpartition("data: ")[2])["error"]
        assert error["code"] == "upstream_silent"
        assert len(straight) == 5


async def test_g15_a_client_that_breaks_off_a_fast_stream_leaves_no_trace(
    box: Box, upstream: ScriptedServer
) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    upstream.reply = Reply.stream(numbered(20_000, 1000))
    for _ in range(10):
        reader, writer = await connect(box)
        writer.write(request_bytes(box, STREAM))
        await reader.read(1000)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    records = await box.records(10)
    assert faults == []
    assert {record.status for record in records} == {499}


async def test_a_streamed_completion_is_metered_like_a_chat(
    box: Box, upstream: ScriptedServer, straight: list[int]
) -> None:
    def piece(text: str, finish: str | None = None) -> bytes:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
        return sse({"object": "text_completion", "model": "m", "choices": [choice]})

    upstream.reply = Reply.stream([piece("a"), piece("b"), piece("c"), piece("", "stop")])
    body = {"model": "up/m", "prompt": "x", "stream": True}
    answer = await box.http.post("/v1/completions", json=body)
    assert answer.text.endswith("[DONE]\n\n")  # its finish was told, if not its end
    record = await box.record()
    assert (record.completion_tokens, record.tokens_counted, record.error) == (3, True, None)
    assert record.ttft_ms is not None
