"""Field reports on the life of models (M01 to M05), for models of Ollama and LM Studio.

Over HTTP through a whole daemon, whose clock is turned by hand.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import attrs
import pytest

from cerberus_core.testing import FakeClock
from tests.conftest import Box, StartBox
from tests.stand_ins import stand_in

pytestmark = pytest.mark.anyio

CONFIG = """
blocked_plugins = ["hello", "llamacpp", "openai", "amd", "nvidia", "rapl"]
[gateway]
hold_s = {hold_s}
[engines]
ttl_s = 60
max_loaded = 1
max_wait_s = 3
[models."ollama/a:1"]
concurrency = 1
[models."lmstudio/a"]
concurrency = 1
[plugins.ollama]
base_url = "{ollama}"
[plugins.lmstudio]
base_url = "{lmstudio}"
"""
NAMES = {"ollama": ("ollama/a:1", "ollama/b:1"), "lmstudio": ("lmstudio/a", "lmstudio/b")}


@attrs.define
class Town:
    """A daemon with two servers behind it; each answer stops after its first word until `go`."""

    box: Box
    clock: FakeClock
    servers: dict[str, Any]
    tasks: Any
    most: int = 0
    """Models that were in memory at the same time."""
    order: list[str] = attrs.field(factory=list)
    """Users, as their answers began."""
    gates: dict[str, asyncio.Event] = attrs.field(factory=dict)
    texts: dict[str, str] = attrs.field(factory=dict)
    statuses: dict[str, int] = attrs.field(factory=dict)
    ended: set[str] = attrs.field(factory=set)

    def ask(self, user: str, model: str) -> None:
        self.gates[user] = asyncio.Event()
        self.texts[user] = ""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "user": user,
        }

        async def ask() -> None:
            async with self.box.http.stream("POST", "/v1/chat/completions", json=body) as answer:
                self.statuses[user] = answer.status_code
                async for piece in answer.aiter_text():
                    self.texts[user] += piece
            self.ended.add(user)

        self.tasks.start_soon(ask)

    async def hold(self, body: Any, number: int) -> None:
        if number == 0:
            self.order.append(body["user"])
            self.most = max(self.most, self.loaded)
            await self.gates[body["user"]].wait()

    @property
    def loaded(self) -> int:
        return len(self.servers["ollama"].loaded) + len(self.servers["lmstudio"].instances)

    @property
    def loads(self) -> int:
        return sum(server.loads.total() for server in self.servers.values())

    @property
    def unhurt(self) -> bool:
        return not any(server.hurt for server in self.servers.values())

    async def begun(self, user: str) -> None:
        with anyio.fail_after(5):
            while user not in self.order:
                await self.clock.advance(0.01)
                await anyio.sleep(0.001)

    async def go(self, user: str) -> None:
        self.gates[user].set()
        with anyio.fail_after(5):
            while user not in self.ended:
                await anyio.sleep(0.001)
        assert self.whole(user)

    def whole(self, user: str) -> bool:
        text = self.texts[user]
        return '"stop"' in text and text.endswith("data: [DONE]\n\n") and '"error"' not in text

    async def state(self, model: str) -> str:
        rows = (await self.box.http.get("/api/models")).json()["models"]
        return next(str(row["state"]) for row in rows if row["id"] == model)

    async def until(self, model: str, state: str) -> None:
        with anyio.fail_after(5):
            while await self.state(model) != state:
                await anyio.sleep(0.005)


@pytest.fixture
async def town(start_box: StartBox, request: pytest.FixtureRequest) -> AsyncIterator[Town]:
    hold_s = getattr(request, "param", 0.05)
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        ollama = await stack.enter_async_context(stand_in("ollama", "fake_ollama").FakeOllama())
        lmstudio = await stack.enter_async_context(
            stand_in("lmstudio", "fake_lmstudio").FakeLMStudio()
        )
        for name in "ab":
            ollama.install(f"{name}:1", 1 << 20, ctx=1)
            lmstudio.install(name, size=1 << 20)
        config = CONFIG.format(ollama=ollama.url, lmstudio=lmstudio.url, hold_s=hold_s)
        box = await stack.enter_async_context(start_box(config, clock=clock))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        made = Town(box, clock, {"ollama": ollama, "lmstudio": lmstudio}, tasks)
        ollama.hold = lmstudio.hold = made.hold
        yield made
        for gate in made.gates.values():
            gate.set()


@pytest.mark.parametrize("first", ["ollama", "lmstudio"])
@pytest.mark.parametrize("second", ["ollama", "lmstudio"])
async def test_m01_ten_and_ten_with_room_for_one_are_never_two(
    town: Town, first: str, second: str
) -> None:
    users = [f"{name}{number}" for number in range(10) for name in "ab"]
    for user in users:
        town.ask(user, NAMES[first][0] if user[0] == "a" else NAMES[second][1])
        town.gates[user].set()
    with anyio.fail_after(20):
        while len(town.ended) < 20:
            await town.clock.advance(0.1)
            await anyio.sleep(0.001)
    assert all(town.whole(user) for user in users)
    assert (town.most, town.loads, town.unhurt) == (1, 2, True)


@pytest.mark.parametrize("kind", ["ollama", "lmstudio"])
async def test_m02_a_long_answer_is_no_idle_time(town: Town, kind: str) -> None:
    model, _ = NAMES[kind]
    town.ask("long", model)
    await town.begun("long")
    await town.clock.advance(90)
    assert town.loaded == 1
    await town.go("long")
    await town.clock.advance(59.9)
    town.ask("late", model)
    await town.begun("late")
    await town.clock.advance(70)
    await town.go("late")
    await town.clock.advance(59)
    assert await town.state(model) == "ready"
    await town.clock.advance(1.5)
    await town.until(model, "unloaded")
    assert (town.loaded, town.loads, town.unhurt) == (0, 1, True)


@pytest.mark.parametrize("first", ["ollama", "lmstudio"])
@pytest.mark.parametrize("second", ["ollama", "lmstudio"])
async def test_m03_an_answer_is_not_cut_off_for_a_model_of_whichever_server(
    town: Town, first: str, second: str
) -> None:
    town.ask("a", NAMES[first][0])
    await town.begun("a")
    await town.clock.advance(1)
    town.ask("b", NAMES[second][1])
    with anyio.fail_after(5):
        while town.texts["b"].count(": ") < 3:  # comments, while it waits
            await town.clock.advance(1)
            await anyio.sleep(0.005)
    assert (town.order, town.loaded, town.unhurt) == (["a"], 1, True)
    await town.go("a")
    await town.begun("b")
    await town.go("b")
    assert (town.most, town.loads, town.unhurt) == (1, 2, True)


@pytest.mark.parametrize("first", ["ollama", "lmstudio"])
@pytest.mark.parametrize("second", ["ollama", "lmstudio"])
async def test_m04_ten_and_one_swap_at_most_twice_and_the_one_has_its_turn(
    town: Town, first: str, second: str
) -> None:
    users = [f"a{number}" for number in range(10)]
    for user in users:
        town.ask(user, NAMES[first][0])
    await any_begun(town)
    town.ask("b", NAMES[second][1])
    with anyio.fail_after(5):
        while await town.state(NAMES[second][1]) != "loading":  # it waits from now on
            await anyio.sleep(0.001)
    while len(town.ended) < 11:
        turn = next(user for user in town.order if user not in town.ended)
        await town.clock.advance(1)
        await town.go(turn)
        if len(town.ended) < 11:
            await any_begun(town)
    assert all(town.whole(user) for user in (*users, "b"))
    assert town.order.index("b") <= 4, "three seconds, and the answer that ran"
    assert (town.most, town.unhurt) == (1, True)
    assert town.loads == 3


async def any_begun(town: Town) -> None:
    with anyio.fail_after(5):
        while not set(town.order) - town.ended:
            await town.clock.advance(0.01)
            await anyio.sleep(0.001)


@pytest.mark.parametrize("town", [60.0], ids=["held"], indirect=True)
@pytest.mark.parametrize("kind", ["ollama", "lmstudio"])
async def test_m05_a_load_that_its_server_gave_up_is_told_and_the_next_starts_anew(
    town: Town, kind: str
) -> None:
    model, _ = NAMES[kind]
    server = town.servers[kind]
    path, words = {
        "ollama": ("/api/generate", "timed out waiting for llama runner to start"),
        "lmstudio": ("/api/v1/models/load", "Model loading timed out"),
    }[kind]
    server.answers[path] = (500, b'{"error": "%s"}' % words.encode())
    town.ask("first", model)
    with anyio.fail_after(5):
        while "first" not in town.ended:
            await anyio.sleep(0.001)
    assert town.statuses["first"] == 503
    assert words in town.texts["first"]
    assert (await town.state(model), town.loaded) == ("failed", 0)
    del server.answers[path]
    town.ask("second", model)
    await town.begun("second")
    await town.go("second")


@pytest.mark.parametrize("kind", ["ollama", "lmstudio"])
async def test_m05_a_load_as_slow_as_it_likes_is_waited_for(town: Town, kind: str) -> None:
    model, _ = NAMES[kind]
    server = town.servers[kind]
    server.load_gate = asyncio.Event()
    town.ask("patient", model)
    await server.load_begun.wait()
    with anyio.fail_after(5):
        while town.texts["patient"].count(": loading") < 90:
            await town.clock.advance(10)
            await anyio.sleep(0.001)
    server.load_gate.set()
    await town.begun("patient")
    await town.go("patient")
    assert town.loads == 1
