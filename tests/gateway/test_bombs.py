"""Answers that unpack, or grow, to more than any answer has."""

import gzip
import json
import tracemalloc
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.errors import UpstreamFailed
from cerberus_core.gateway import decode, reading
from cerberus_core.gateway.decode import Decoder
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import chat_answer, chat_chunks, chunk, sse
from tests.conftest import Box, StartBox, endpoint

PACKED_STREAM = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
PACKED_JSON = (("content-type", "application/json"), ("content-encoding", "gzip"))


def members(*parts: bytes) -> bytes:
    return b"".join(gzip.compress(part) for part in parts)


@given(
    st.lists(st.binary(max_size=50), min_size=1, max_size=5), st.integers(1, 40), st.integers(0, 3)
)
def test_files_one_after_the_other_unpack_however_they_are_cut(
    parts: list[bytes], size: int, padding: int
) -> None:
    packed = members(*parts) + b"\0" * padding
    decoder = Decoder("gzip")
    plain = b"".join(decoder.feed(packed[i : i + size]) for i in range(0, len(packed), size))
    assert plain == b"".join(parts)


@pytest.mark.parametrize("size", [decode.STEP - 1, decode.STEP, decode.STEP + 1, 3 * decode.STEP])
def test_what_is_larger_than_a_step_comes_whole(size: int) -> None:
    # A sync flush, as servers end their events with: nothing may be held back.
    pack = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    packed = pack.compress(b"x" * size) + pack.flush(zlib.Z_SYNC_FLUSH)
    assert len(Decoder("gzip").feed(packed)) == size


def test_bytes_after_a_deflated_answer_are_left_out() -> None:
    assert Decoder("deflate").feed(zlib.compress(b"x") + b"more") == b"x"


@pytest.mark.parametrize(
    "make",
    [
        lambda: gzip.compress(b" " * (100 << 20)),
        lambda: members(*[b" " * (1 << 20)] * 100),
        lambda: members(b"x") * 2000,
    ],
    ids=["one file", "a hundred files", "two thousand files"],
)
def test_a_bomb_is_refused_before_it_fills_the_memory(make: Callable[[], bytes]) -> None:
    bomb = make()
    tracemalloc.start()
    try:
        with pytest.raises(UpstreamFailed, match="compressed answer"):
            Decoder("gzip").feed(bomb)
        assert tracemalloc.get_traced_memory()[1] < 3 * decode.MAX_AT_ONCE
    finally:
        tracemalloc.stop()


def test_a_slow_bomb_is_refused_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MAX_OUT", 4 << 20)
    decoder = Decoder("gzip")
    bomb = gzip.compress(b" " * (5 << 20))
    parts = (bomb[i : i + 100] for i in range(0, len(bomb), 100))
    with pytest.raises(UpstreamFailed, match="more than 4 MiB"):
        deque(map(decoder.feed, parts), 0)


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(endpoint(upstream)) as box:
        yield box


@pytest.mark.anyio
@pytest.mark.parametrize("asked", ["stream", "whole"])
@pytest.mark.parametrize("answered", ["stream", "whole"])
async def test_a_bomb_as_answer_is_told_and_the_next_request_works(
    box: Box, upstream: ScriptedServer, asked: str, answered: str
) -> None:
    bomb = gzip.compress(sse(chunk({"content": " " * (100 << 20)})))
    headers = PACKED_STREAM if answered == "stream" else PACKED_JSON
    upstream.reply = Reply(headers=headers, parts=[bomb], framing="length")
    body = {"model": "up/m", "messages": [{}], "stream": asked == "stream"}
    answer = await box.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 502
    assert "unpacks to more than 16 MiB" in answer.json()["error"]["message"]
    upstream.reply = Reply.json(chat_answer("x"))
    answer = await box.http.post("/v1/chat/completions", json={**body, "stream": False})
    assert answer.status_code == 200


@pytest.mark.anyio
async def test_a_bomb_in_the_middle_of_a_stream_ends_it_in_an_error(
    box: Box, upstream: ScriptedServer
) -> None:
    pack = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    first = pack.compress(sse(chunk({"content": "Hel"}))) + pack.flush(zlib.Z_SYNC_FLUSH)
    bomb = pack.compress(b": " + b" " * (100 << 20)) + pack.flush()
    upstream.reply = Reply.stream([first, bomb], headers=PACKED_STREAM)
    body = {"model": "up/m", "messages": [{}], "stream": True}
    answer = await box.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data:")]
    assert events[0]["choices"][0]["delta"]["content"] == "Hel"
    assert "unpacks to more than" in events[-1]["error"]["message"]
    assert "[DONE]" not in answer.text


@pytest.mark.anyio
async def test_a_stream_that_is_put_together_has_a_limit_on_its_sum(
    box: Box, upstream: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WHOLE_LIMIT", 1 << 20)
    upstream.reply = Reply.stream(chat_chunks(["x" * 5000] * 250))
    answer = await box.http.post("/v1/chat/completions", json={"model": "up/m", "messages": [{}]})
    assert answer.status_code == 502
    assert "up/m answered with more than 1 MiB" in answer.json()["error"]["message"]
    upstream.reply = Reply.stream([sse({"choices": [{"index": n} for n in range(5000)]})])
    answer = await box.http.post("/v1/chat/completions", json={"model": "up/m", "messages": [{}]})
    assert answer.status_code == 502
    assert "more parts" in answer.json()["error"]["message"]
