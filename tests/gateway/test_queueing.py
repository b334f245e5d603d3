"""One at a time, a short queue: who waits, who is sent away, and who is forgotten."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import attrs
import httpx
import openai
import pytest

from cerberus_core.testing import FakeClock, Reply, ScriptedServer
from cerberus_core.testing.scripted import Received, Wait, chat_chunks
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}
QUEUE = """
[engines]
queue_limit = 3
[models."up/m"]
concurrency = 1
"""


@attrs.define
class Counter:
    """A model with one place; each answer waits for its `go`."""

    box: Box
    upstream: ScriptedServer
    clock: FakeClock
    tasks: Any
    waits: dict[str, Wait] = attrs.field(factory=dict)
    answers: dict[str, httpx.Response] = attrs.field(factory=dict)

    def reply(self, received: Received) -> Reply:
        asked = received.json()
        if asked["stream"]:
            return Reply.stream([self.waits[asked["user"]], *chat_chunks(["Hel", "lo"])])
        message = {"index": 0, "finish_reason": "stop", "message": {"content": "Hello"}}
        body = Reply.json({"choices": [message]})
        return attrs.evolve(body, parts=[self.waits[asked["user"]], *body.parts], framing="chunked")

    async def ask(self, name: str, *, stream: bool = False) -> None:
        """Returns once it is answered, refused, or waits."""
        self.waits[name] = Wait()

        async def post() -> None:
            body = {**ASK, "stream": stream, "user": name}
            self.answers[name] = await self.box.http.post("/v1/chat/completions", json=body)

        before = await self.live()
        self.tasks.start_soon(post)
        with anyio.fail_after(5):
            while name not in self.answers and await self.live() == before:
                await anyio.sleep(0.001)

    async def finish(self, name: str) -> None:
        with anyio.fail_after(5):
            await self.waits[name].reached.wait()
            self.waits[name].go()
            while name not in self.answers:
                await anyio.sleep(0.001)

    async def live(self) -> int:
        return len((await self.box.http.get("/api/requests")).json()["live"])

    @property
    def received(self) -> list[str]:
        return [received.json()["user"] for received in self.upstream.requests]


@pytest.fixture
async def counter(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Counter]:
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(start_box(endpoint(upstream) + QUEUE, clock=clock))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        made = Counter(box, upstream, clock, tasks)
        upstream.reply = made.reply
        yield made
        for wait in made.waits.values():
            wait.go()


@pytest.mark.parametrize("stream", [False, True])
async def test_one_too_many_is_a_429_that_says_when_to_come_back(
    counter: Counter, stream: bool
) -> None:
    for name in "abcd":
        await counter.ask(name, stream=stream)
    await counter.ask("early", stream=stream)
    assert counter.answers["early"].headers["retry-after"] == "1", "nothing is known yet"
    await counter.clock.advance(4)
    await counter.finish("a")  # a turn takes four seconds
    await counter.ask("e", stream=stream)
    await counter.ask("late", stream=stream)
    refused = counter.answers["late"]
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "12")
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "overloaded")
    assert "3 requests wait" in error["message"]
    assert "engines.queue_limit" in error["hint"]
    async with openai.AsyncOpenAI(
        base_url=f"{counter.box.url}/v1", api_key=counter.box.token, max_retries=0
    ) as client:
        with pytest.raises(openai.RateLimitError, match="3 requests wait") as caught:
            await client.chat.completions.create(**ASK, stream=stream)
        assert caught.value.response.headers["retry-after"] == "12"
    for name in "bcde":
        await counter.finish(name)
    assert [counter.answers[name].status_code for name in "abcde"] == [200] * 5
    assert counter.received == list("abcde"), "in order, and nobody else"


@pytest.mark.parametrize("stream", [False, True])
async def test_g16_a_client_that_leaves_our_queue_is_not_run(
    counter: Counter, stream: bool
) -> None:
    await counter.ask("a", stream=stream)
    async with httpx.AsyncClient(
        base_url=counter.box.url, headers=counter.box.http.headers
    ) as http:
        body = {**ASK, "stream": stream, "user": "left"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: http.post("/v1/chat/completions", json=body))
            with anyio.fail_after(5):
                while await counter.live() < 2:
                    await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        while await counter.live() > 1:
            await anyio.sleep(0.001)
    await counter.ask("b", stream=stream)
    await counter.finish("a")
    await counter.finish("b")
    assert counter.received == ["a", "b"]
    [model] = (await counter.box.http.get("/api/models")).json()["models"]
    assert model["in_flight"] == 0
    statuses = [record.status for record in await counter.box.records(3)]
    assert sorted(statuses) == [200, 200, 499]
