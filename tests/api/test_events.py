"""Live events over SSE: at once, resumed after a gap, ended with the daemon (U07)."""

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from cerberus_core.api import events as events_module
from cerberus_core.events import Bus
from cerberus_core.testing import ScriptedServer
from cerberus_core.values import Event
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}


class Reader:
    """The events of one connection, as a browser's EventSource reads them."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.comments: list[str] = []
        self._lines = answer.aiter_lines()

    async def next(self) -> tuple[str, str, Any]:
        """(id, type, data) of the next event."""
        fields: dict[str, str] = {}
        with anyio.fail_after(10):
            async for line in self._lines:
                if line.startswith(":"):
                    self.comments.append(line)
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    return fields["id"], fields["event"], json.loads(fields["data"])
        raise EOFError


@asynccontextmanager
async def following(box: Box, last_id: str | None = None) -> AsyncIterator[Reader]:
    headers = {} if last_id is None else {"last-event-id": last_id}
    async with box.http.stream("GET", "/api/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Reader(answer)


async def ask(box: Box, times: int) -> None:
    for _ in range(times):
        await box.http.post("/v1/chat/completions", json=ASK)


async def test_the_first_bytes_come_at_once(box: Box) -> None:
    async with following(box) as reader:
        with anyio.fail_after(2):
            first = await anext(reader.answer.aiter_raw())
    assert first.startswith(b"retry: ")


async def test_u07_what_happened_in_a_gap_follows_in_order(box: Box) -> None:
    async with following(box) as reader:
        await ask(box, 5)
        seen = [await reader.next() for _ in range(10)]
    await ask(box, 10)
    async with following(box, seen[-1][0]) as reader:
        missed = [await reader.next() for _ in range(20)]
    ids = [int(event[0].rpartition("-")[2]) for event in [*seen, *missed]]
    assert ids == list(range(ids[0], ids[0] + 30)), "none lost, none twice"
    records = [data for _, kind, data in [*seen, *missed] if kind == "record"]
    assert len({record["id"] for record in records}) == len(records) >= 14


async def test_u07_who_missed_too_much_is_told_to_reload_and_goes_on(
    start_box: StartBox, upstream: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cerberus_core.daemon.rooms.Bus", partial(Bus, 8))
    async with start_box(endpoint(upstream)) as box:
        async with following(box) as reader:
            await ask(box, 1)
            last_id, _, _ = await reader.next()
        await ask(box, 10)
        await box.records(11)
        async with following(box, last_id) as reader:
            at, kind, _ = await reader.next()
            assert kind == "reload"
            await ask(box, 1)
            after, kind, _ = await reader.next()
            assert kind in ("request", "record")
            assert int(after.rpartition("-")[2]) > int(at.rpartition("-")[2])


@pytest.mark.parametrize("last_id", ["01JXXXXXXXXXXXXXXXXXXXXXXX-5", "x", "-", "", "9" * 4000])
async def test_u07_the_id_of_another_daemon_or_nonsense_means_reload(
    box: Box, last_id: str
) -> None:
    async with following(box, last_id) as reader:
        _, kind, _ = await reader.next()
    assert kind == "reload"


async def test_a_comment_says_that_the_line_is_alive(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "PING_S", 0.01)
    async with following(box) as reader:
        with anyio.fail_after(5):
            async for line in reader.answer.aiter_lines():
                if line == ": ping":
                    break


async def test_every_reader_ends_promptly_when_the_daemon_stops(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with httpx.AsyncClient() as client:
        async with start_box(endpoint(upstream)) as box:
            headers = {"authorization": f"Bearer {box.token}"}
            request = client.build_request("GET", f"{box.url}/api/events", headers=headers)
            answers = [await client.send(request, stream=True) for _ in range(3)]
            stopping = time.monotonic()
        assert time.monotonic() - stopping < 2.5
        for answer in answers:
            assert b"retry" in await answer.aread()  # a clean end, no broken connection


async def test_a_reader_that_leaves_is_forgotten(
    start_box: StartBox, upstream: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = 0

    class Counting(Bus):
        async def _follow(self, position: int | None) -> AsyncGenerator[Event]:
            nonlocal readers
            readers += 1
            async with aclosing(super()._follow(position)) as events:
                try:
                    async for event in events:
                        yield event
                finally:
                    readers -= 1

    monkeypatch.setattr("cerberus_core.daemon.rooms.Bus", Counting)
    async with start_box(endpoint(upstream)) as box:
        async with following(box):
            with anyio.fail_after(5):
                while readers != 1:
                    await anyio.sleep(0.01)
        with anyio.fail_after(5):
            while readers != 0:
                await anyio.sleep(0.01)
