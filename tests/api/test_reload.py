"""Settings that change under a running daemon: nothing stops that did not change."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from cerberus_core.interfaces import Backend
from cerberus_core.loading import Plugins
from cerberus_core.testing import FakeClock, Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_chunks
from cerberus_core.values import Endpoint, LoadPlan, LoadProgress, ModelInfo
from tests.api.test_events import Reader
from tests.conftest import Box, StartBox

pytestmark = pytest.mark.anyio


class Toy(Backend):
    """`toy/a` and `toy/b`, answered by a scripted server."""

    name = "toy"

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.plans: list[LoadPlan] = []
        self.unloads: list[str] = []
        self.gate: asyncio.Event | None = None
        """Loads wait for it where it is set."""

    async def list(self) -> Sequence[ModelInfo]:
        return [ModelInfo(id=f"toy/{name}", backend="toy", name=name) for name in "ab"]

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        self.plans.append(plan)
        if self.gate is not None:
            await self.gate.wait()
        return Endpoint(base_url=self.base_url, model=model.name, backend="toy", ctx=plan.context)

    async def unload(self, model: ModelInfo) -> None:
        self.unloads.append(model.id)


class House:
    """A daemon with the toy behind it, and its file."""

    def __init__(self, box: Box, toy: Toy, clock: FakeClock) -> None:
        self.box = box
        self.toy = toy
        self.clock = clock

    async def save(self, text: str) -> None:
        """As an editor does; the token that was made at the start stays in the file."""
        token = f'[server]\ntoken = "{self.box.token}"\n'
        whole = text.replace("[server]\n", token) if "[server]\n" in text else text + "\n" + token
        await anyio.to_thread.run_sync(put, self.box.folders.config_file, whole)

    async def reload(self, text: str) -> dict[str, str]:
        """Save and read it; the effect of each change."""
        await self.save(text)
        answer = await self.box.http.post("/api/config/reload")
        assert answer.status_code == 200, answer.text
        return {change["key"]: change["effect"] for change in answer.json()["changes"]}

    async def get(self, path: str) -> Any:
        return (await self.box.http.get(path)).json()

    async def model(self, name: str) -> dict[str, Any]:
        rows = (await self.get("/api/models"))["models"]
        return next(row for row in rows if row["id"] == name)

    async def load(self, name: str) -> None:
        assert (await self.box.http.post(f"/api/models/load/{name}")).status_code == 200


def put(file: Path, text: str) -> None:
    new = file.with_name("new")
    new.write_text(text)
    os.replace(new, file)


@pytest.fixture
async def house(
    start_box: StartBox, upstream: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[House]:
    toy, clock = Toy(upstream.base_url), FakeClock()
    monkeypatch.setattr(
        "cerberus_core.daemon.rooms.load_plugins", lambda *_, **__: Plugins(backends={"toy": toy})
    )
    async with start_box(clock=clock) as box:
        yield House(box, toy, clock)


async def test_a_shorter_ttl_unloads_the_idle_one_while_the_other_answers_on(
    house: House, upstream: ScriptedServer
) -> None:
    hold = Wait()
    first, *others = chat_chunks(["on", "ce"])
    upstream.reply = Reply.stream([first, hold, *others])
    await house.load("toy/a")
    ask = {"model": "toy/b", "messages": [{"role": "user", "content": "x"}], "stream": True}
    async with house.box.http.stream("POST", "/v1/chat/completions", json=ask) as answer:
        lines = answer.aiter_lines()
        assert "on" in await anext(lines)
        await house.clock.advance(100)
        assert (await house.model("toy/a"))["state"] == "ready"
        changes = await house.reload('[models."toy/a"]\nttl_s = 60\n')
        assert changes == {'models."toy/a".ttl_s': "now"}
        with anyio.fail_after(10):
            while (await house.model("toy/a"))["state"] != "unloaded":
                await anyio.sleep(0.01)
        assert house.toy.unloads == ["toy/a"]
        hold.go()
        rest = [line async for line in lines if line]
    assert "ce" in rest[0]
    assert rest[-1] == "data: [DONE]"
    assert house.toy.unloads == ["toy/a"]
    assert (await house.box.record()).error is None


async def test_another_context_waits_for_the_next_load(house: House) -> None:
    own = '[models."toy/a"]\ncontext = {}\n'
    await house.reload(own.format(1024))
    await house.load("toy/a")
    assert await house.reload(own.format(2048)) == {'models."toy/a".context': "next_load"}
    model = await house.model("toy/a")
    assert (model["state"], model["loaded_ctx"], house.toy.unloads) == ("ready", 1024, [])
    assert (await house.get("/api/config"))["config"]["models"]["toy/a"]["context"] == 2048
    await house.box.http.post("/api/models/unload/toy/a")
    await house.load("toy/a")
    assert (await house.model("toy/a"))["loaded_ctx"] == 2048
    assert [plan.context for plan in house.toy.plans] == [1024, 2048]


async def test_a_reload_while_a_model_loads_lets_it_load_as_it_began(house: House) -> None:
    house.toy.gate = asyncio.Event()
    answer = await house.box.http.post("/api/models/load/toy/a?wait=false")
    assert answer.status_code == 202
    while not house.toy.plans:
        await anyio.sleep(0.01)
    await house.reload('[models."toy/a"]\ncontext = 2048\nttl_s = 5\nconcurrency = 1\n')
    assert (await house.model("toy/a"))["state"] == "loading"
    house.toy.gate.set()
    await house.load("toy/a")
    assert [plan.context for plan in house.toy.plans] == [None]
    assert house.toy.unloads == []


async def test_what_is_saved_is_in_force_for_the_next_request(house: House) -> None:
    box = house.box
    foreign = {"host": "box.example"}
    assert (await box.http.get("/api/status", headers=foreign)).status_code == 403
    assert (await house.get("/api/models"))["default"] != "toy/b"
    await house.reload(
        'default_model = "second"\n'
        '[server]\nallowed_hosts = ["box.example"]\npublic_url = "https://cerberus.example"\n'
        "[energy]\nprice_per_kwh = 0.5\n"
        "[gateway]\nbody_limit_mib = 1\n"
        '[models."toy/b"]\naliases = ["second"]\n'
    )
    assert (await box.http.get("/api/status", headers=foreign)).status_code == 200
    assert (await house.get("/api/models"))["default"] == "toy/b"
    assert (await house.get("/api/usage"))["price_per_kwh"] == 0.5
    assert (await house.get("/api/status"))["url"] == "https://cerberus.example"
    assert (await house.get("/v1/models/second"))["id"] == "toy/b"
    big = await box.http.post("/v1/chat/completions", content=b"x" * ((1 << 20) + 1))
    assert big.status_code == 413


async def test_c03_a_mistake_changes_nothing_and_is_seen_until_it_is_mended(house: House) -> None:
    await house.reload("[engines]\nttl_s = 60\n")
    await house.save("[engines]\nttl_s = -1\n")
    for method, path in (("POST", "/api/config/reload"), ("GET", "/api/config/diff")):
        refused = await house.box.http.request(method, path)
        assert (refused.status_code, refused.json()["code"]) == (400, "config_error")
        assert "engines.ttl_s is -1" in refused.json()["title"]
    assert (await house.get("/api/config"))["config"]["engines"]["ttl_s"] == 60
    [warning] = (await house.get("/api/status"))["warnings"]
    assert "engines.ttl_s is -1" in warning
    [notice] = (await house.get("/api/notices"))["notices"]
    assert notice["text"] == warning
    assert "Mend it in" in notice["hint"]
    await house.reload("[engines]\nttl_s = 60\n")
    assert (await house.get("/api/status"))["warnings"] == []


async def test_what_waits_for_a_restart_is_told_and_what_is_in_force_is_shown(
    house: House,
) -> None:
    effects = await house.reload("strict_plugins = true\n[usage]\nkeep = 5\n")
    assert effects == {"strict_plugins": "restart", "usage.keep": "restart"}
    shown = await house.get("/api/config")
    assert shown["config"]["usage"]["keep"] == 1000
    assert any("after a restart: strict_plugins, usage.keep" in line for line in shown["warnings"])
    changes = (await house.get("/api/config/diff"))["changes"]
    assert [(one["key"], one["new"]) for one in changes] == [
        ("strict_plugins", True),
        ("usage.keep", 5),
    ]


async def test_who_comes_with_the_files_newer_token_is_told_of_the_restart(house: House) -> None:
    await anyio.to_thread.run_sync(put, house.box.folders.config_file, '[server]\ntoken = "new"\n')
    assert (await house.box.http.post("/api/config/reload")).status_code == 200
    for token in ("new", "wrong"):
        headers = {"authorization": f"Bearer {token}"}
        refused = await house.box.http.get("/api/status", headers=headers)
        assert refused.status_code == 401
        assert "start it anew" in refused.json()["title"]
    await house.reload("")
    refused = await house.box.http.get("/api/status", headers={"authorization": "Bearer wrong"})
    assert "`cerberus token` prints the right one" in refused.json()["title"]


async def test_a_loaded_model_with_other_settings_than_it_was_loaded_with_is_told(
    house: House,
) -> None:
    await house.reload('[models."toy/a"]\ncontext = 1024\n')
    await house.load("toy/a")
    await house.load("toy/b")
    assert (await house.get("/api/config/diff"))["changes"] == []
    await house.reload('[models."toy/a"]\ncontext = 2048\ndevices = ["x"]\n')
    changes = (await house.get("/api/config/diff"))["changes"]
    assert [(one["key"], one["old"], one["new"], one["effect"]) for one in changes] == [
        ('models."toy/a".context', 1024, 2048, "next_load"),
        ('models."toy/a".devices', None, ["x"], "next_load"),
    ]
    said = "Loaded with other settings than they have now: toy/a"
    assert said in (await house.get("/api/status"))["warnings"]
    await house.save('[models."toy/a"]\ncontext = 4096\ndevices = ["x"]\n')
    changes = (await house.get("/api/config/diff"))["changes"]
    assert [(one["key"], one["new"]) for one in changes] == [
        ('models."toy/a".context', 4096),
        ('models."toy/a".devices', ["x"]),
    ], "each key once"
    await house.reload('[models."toy/a"]\ncontext = 1024\n')
    assert (await house.get("/api/config/diff"))["changes"] == []
    assert said not in (await house.get("/api/status"))["warnings"]


async def test_the_page_is_told_to_read_anew(house: House) -> None:
    async with house.box.http.stream("GET", "/api/events") as answer:
        reader = Reader(answer)
        await house.reload("[engines]\nttl_s = 60\n")
        assert (await reader.next())[1] == "reload"


async def test_what_is_saved_is_taken_up_without_being_asked(house: House) -> None:
    await house.save("[engines]\nttl_s = 60\n")
    with anyio.fail_after(20):
        while (await house.get("/api/config"))["config"]["engines"]["ttl_s"] != 60:
            await house.clock.advance(0.25)
            await anyio.sleep(0.01)
    assert (await house.get("/api/config/diff"))["changes"] == []
