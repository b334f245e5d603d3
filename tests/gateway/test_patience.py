"""Local first with a deadline: who answers while the local model loads, or is busy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import attrs
import httpx
import pytest

from cerberus_core.cli.why import lines
from cerberus_core.testing import FakeClock, Reply, ScriptedServer
from cerberus_core.testing.scripted import chat_answer
from tests.conftest import Box, StartBox
from tests.stand_ins import stand_in

pytestmark = pytest.mark.anyio

LOCAL, CLOUD = "ollama/a:1", "cloud/m"
CONFIG = """
blocked_plugins = ["hello", "llamacpp", "lmstudio", "amd", "nvidia", "rapl"]
[plugins.ollama]
base_url = "{ollama}"
[plugins.openai.endpoints.cloud]
base_url = "{cloud}"
models = ["m"]
local = false
[models."ollama/a:1"]
fallbacks = ["cloud/m"]
patience_s = 5
concurrency = 1
[prices."cloud/m"]
input = 1000
output = 1000
"""


@attrs.define
class House:
    """A local model whose loads wait for `gate` and took 30 seconds before, and a cloud."""

    box: Box
    clock: FakeClock
    ollama: Any
    cloud: ScriptedServer
    tasks: Any

    async def ask(self, token: str | None = None, **headers: str) -> httpx.Response:
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        body = {"model": LOCAL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
        return await self.box.http.post("/v1/chat/completions", json=body, headers=headers)

    async def start(self, token: str | None = None, **headers: str) -> list[httpx.Response]:
        """Ask, and go on while it waits for the load."""
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await self.ask(token, **headers))

        self.tasks.start_soon(ask)
        await self.ollama.load_begun.wait()
        return answers

    async def key(self, **wanted: Any) -> str:
        answer = await self.box.http.post("/api/keys", json={"name": "k", **wanted})
        return str(answer.json()["token"])

    async def until(self, state: str) -> None:
        with anyio.fail_after(5):
            while True:
                rows = (await self.box.http.get("/api/models")).json()["models"]
                if next(row["state"] for row in rows if row["id"] == LOCAL) == state:
                    return
                await self.clock.advance(0.01)  # its server is looked at from time to time
                await anyio.sleep(0.001)

    async def load(self) -> None:
        """What was asked for is loaded."""
        self.ollama.load_gate.set()
        await self.until("ready")

    async def why(self) -> tuple[Any, str]:
        """The record of the last request, and its route in words."""
        record = await self.box.record()
        told = (await self.box.http.get(f"/api/requests/{record.id}")).json()
        return record, next(line for line in lines(told) if line.startswith("route"))


@pytest.fixture
async def house(start_box: StartBox) -> AsyncIterator[House]:
    clock = FakeClock()
    cloud_says = Reply.json(chat_answer("from the cloud"))
    async with (
        stand_in("ollama", "fake_ollama").FakeOllama() as ollama,
        ScriptedServer(cloud_says) as cloud,
        AsyncExitStack() as stack,
    ):
        ollama.install("a:1")
        ollama.load_gate = asyncio.Event()
        config = CONFIG.format(ollama=ollama.url, cloud=cloud.base_url)
        box = await stack.enter_async_context(start_box(config, clock=clock))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        made = House(box, clock, ollama, cloud, tasks)
        first = await made.start(**{"x-cerberus-patience": "100"})
        await clock.advance(30)
        await made.load()
        await box.records(1)
        assert said(first[0]) == "Hello"
        await box.http.post(f"/api/models/unload/{LOCAL}")
        await made.until("unloaded")
        ollama.load_gate = asyncio.Event()
        ollama.load_begun = asyncio.Event()
        yield made
        ollama.load_gate.set()


def said(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


async def test_a_cloud_answers_at_once_while_a_slow_load_goes_on_for_the_next(
    house: House,
) -> None:
    assert said(await house.ask()) == "from the cloud"
    record, route = await house.why()
    assert (record.model, record.asked, record.local) == (CLOUD, LOCAL, False)
    assert record.cost == pytest.approx(0.007)
    assert f"{LOCAL} gave way ({LOCAL} would take about 30 s to load)" in route
    assert f"{CLOUD} answered at cloud" in route
    with anyio.fail_after(5):
        await house.ollama.load_begun.wait()
    await house.load()
    assert said(await house.ask()) == "Hello"
    assert (await house.box.record()).tried == ()
    assert len(house.cloud.requests) == 1


async def test_the_clients_own_patience_wins(house: House) -> None:
    answers = await house.start(**{"x-cerberus-patience": "60"})
    await house.load()
    await house.box.records(2)
    assert said(answers[0]) == "Hello"
    assert house.cloud.requests == []


async def test_what_is_left_of_a_load_counts(house: House) -> None:
    patient = await house.start(**{"x-cerberus-patience": "60"})
    await house.clock.advance(26)
    late = []

    async def ask() -> None:
        late.append(await house.ask())

    house.tasks.start_soon(ask)
    await house.clock.advance(0.1)
    await house.load()
    await house.box.records(3)
    assert (said(patient[0]), said(late[0])) == ("Hello", "Hello")


async def test_where_nothing_is_known_the_patience_is_waited_for(house: House) -> None:
    house.ollama.install("new:1")
    fallbacks = '[models."ollama/new:1"]\nfallbacks = ["cloud/m"]\n'
    file = house.box.folders.config_file
    await anyio.Path(file).write_text(await anyio.Path(file).read_text() + fallbacks)
    await house.box.http.post("/api/config/reload")
    body = {"model": "ollama/new:1", "messages": [{"role": "user", "content": "hi"}]}
    answer = await house.box.http.post(
        "/v1/chat/completions", json=body, headers={"x-cerberus-patience": "0.05"}
    )
    assert said(answer) == "from the cloud"
    _, route = await house.why()
    assert "(ollama/new:1 was not ready within 0.05 s)" in route


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ({"cloud": False}, "is for local models alone"),
        ({"models": [LOCAL]}, "may not use cloud/m"),
        ({"limits": [{"what": "money", "per": "day", "most": 0}]}, "has used up its 0 of money"),
    ],
)
async def test_a_key_that_may_not_pay_a_cloud_waits_for_the_local_model(
    house: House, scope: dict[str, Any], why: str
) -> None:
    answers = await house.start(await house.key(**scope))
    assert answers == []
    await house.load()
    await house.box.records(2)
    assert said(answers[0]) == "Hello"
    assert house.cloud.requests == []
    record, route = await house.why()
    assert (record.model, record.local) == (LOCAL, True)
    assert [step.model for step in record.tried] == [LOCAL, CLOUD]
    assert why in route
    assert route.endswith(f"then {LOCAL} answered on this machine")
    metrics = (await house.box.http.get("/metrics")).text
    assert "cloud_not_allowed" not in metrics
    assert "limit_reached" not in metrics


async def test_a_cloud_that_is_down_leaves_the_wait_for_the_local_model(house: House) -> None:
    house.cloud.reply = Reply.json({"error": {"message": "down"}}, status=503)
    answers = await house.start(**{"x-cerberus-patience": "0.01"})
    await house.load()
    await house.box.records(2)
    assert said(answers[0]) == "Hello"


async def test_a_request_that_gave_way_is_one_request_of_its_key(house: House) -> None:
    token = await house.key(limits=[{"what": "requests", "per": "day", "most": 1}])
    assert said(await house.ask(token)) == "from the cloud"
    assert (await house.ask(token)).status_code == 429


async def test_a_key_hears_of_the_model_it_asked_for_not_of_one_it_may_not_use(
    house: House,
) -> None:
    token = await house.key(cloud=False)
    house.ollama.answers["/v1/chat/completions"] = (500, b'{"error": {"message": "broken"}}')
    house.ollama.load_gate.set()
    answer = await house.ask(token)
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "broken")


async def test_a_queue_that_moves_too_slowly_counts_as_well(house: House) -> None:
    await house.box.http.post(f"/api/models/load/{LOCAL}?wait=false")
    await house.load()
    gates = [asyncio.Event() for _ in range(3)]
    ended: list[httpx.Response] = []
    answering = 0

    async def hold(body: Any, number: int) -> None:
        nonlocal answering
        if number == 0:
            answering += 1
            await gates[answering - 1].wait()

    house.ollama.hold = hold

    async def ask() -> None:
        body = {"model": LOCAL, "messages": [{"role": "user", "content": "hi"}], "stream": True}
        headers = {"x-cerberus-patience": "100"}
        answer = await house.box.http.post("/v1/chat/completions", json=body, headers=headers)
        ended.append(answer)

    for _ in gates:
        house.tasks.start_soon(ask)
    with anyio.fail_after(5):
        while answering < 1 or (await queued(house.box)) < 2:
            await anyio.sleep(0.005)
        await house.clock.advance(9)
        gates[0].set()
        while answering < 2:
            await anyio.sleep(0.005)
    answer = await house.ask()
    assert said(answer) == "from the cloud"
    record = await house.box.http.get(f"/api/requests/{answer.headers['x-request-id']}")
    [tried] = record.json()["tried"]
    assert tried == {"model": LOCAL, "why": f"{LOCAL} would take about 9 s until its turn comes"}
    for gate in gates:
        gate.set()


async def queued(box: Box) -> int:
    rows = (await box.http.get("/api/models")).json()["models"]
    return next(int(row["queued"]) for row in rows if row["id"] == LOCAL)
