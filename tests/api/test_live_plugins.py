"""Endpoints that are added, changed and taken away while the daemon runs."""

import json
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_answer, chat_chunks
from tests.conftest import Box, StartBox

pytestmark = pytest.mark.anyio

PLAIN = 'blocked_plugins = ["llamacpp", "hello", "amd", "nvidia", "rapl"]\n'


def up(server: ScriptedServer, name: str = "up", more: str = "") -> str:
    return (
        f"[plugins.openai.endpoints.{name}]\n"
        f'base_url = "{server.base_url}"\nmodels = ["m"]\n{more}\n'
    )


async def reload(box: Box, text: str) -> httpx.Response:
    whole = f'{PLAIN}[server]\ntoken = "{box.token}"\n{text}'
    await anyio.to_thread.run_sync(box.folders.config_file.write_text, whole)
    return await box.http.post("/api/config/reload")


async def effects(box: Box, text: str) -> set[str]:
    answer = await reload(box, text)
    assert answer.status_code == 200, answer.text
    return {change["effect"] for change in answer.json()["changes"]}


async def ask(box: Box, model: str = "up/m") -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "x"}]}
    return await box.http.post("/v1/chat/completions", json=body)


async def listed(box: Box) -> list[str]:
    return [row["id"] for row in (await box.http.get("/api/models")).json()["models"]]


async def warnings(box: Box) -> list[str]:
    return (await box.http.get("/api/status")).json()["warnings"]  # type: ignore[no-any-return]


async def test_the_first_endpoint_of_a_running_daemon_answers_at_once(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.json(chat_answer("hello"))
    async with start_box(PLAIN) as box:
        assert (await ask(box)).status_code == 404
        assert await listed(box) == []
        assert await effects(box, up(upstream)) == {"now"}
        assert await listed(box) == ["up/m"]
        assert (await ask(box)).status_code == 200
        rows = (await box.http.get("/api/plugins")).json()["plugins"]
        assert next(row for row in rows if row["name"] == "openai")["provides"] == ["backend up"]
        assert await effects(box, "") == {"now"}
        assert (await ask(box)).status_code == 404
        assert await warnings(box) == []


async def test_another_address_is_asked_next_while_the_old_one_answers_on(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    hold = Wait()
    first, *others = chat_chunks(["on", "ce"])
    upstream.reply = Reply.stream([first, hold, *others])
    async with ScriptedServer(Reply.json(chat_answer("new"))) as other, start_box(PLAIN) as box:
        await reload(box, up(upstream))
        body: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user"}], "stream": True}
        async with box.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.aiter_lines()
            assert "on" in await anext(lines)
            assert await effects(box, up(other)) == {"now"}
            assert (await ask(box)).json()["choices"][0]["message"]["content"] == "new"
            hold.go()
            rest = [line async for line in lines if line]
        assert "ce" in rest[0]
        assert rest[-1] == "data: [DONE]"
        assert [record.error for record in await box.records(2)] == [None, None]
        models = (await box.http.get("/api/models")).json()["models"]
        assert [(model["id"], model["in_flight"]) for model in models] == [("up/m", 0)]


async def test_who_waits_for_the_old_endpoint_is_answered_by_it(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    hold = Wait()
    first, *others = chat_chunks(["on", "ce"])
    upstream.reply = Reply.stream([first, hold, *others])
    one = '[models."up/m"]\nconcurrency = 1\n'
    async with ScriptedServer() as other, start_box(PLAIN) as box:
        await reload(box, up(upstream) + one)
        async with anyio.create_task_group() as tasks:
            answers: list[httpx.Response] = []

            async def stream() -> None:
                body = {"model": "up/m", "messages": [{"role": "user"}], "stream": True}
                answers.append(await box.http.post("/v1/chat/completions", json=body))

            tasks.start_soon(stream)
            await hold.reached.wait()
            tasks.start_soon(stream)
            while len((await box.http.get("/api/requests")).json()["live"]) < 2:
                await anyio.sleep(0.01)
            assert await effects(box, up(other) + one) == {"now"}
            hold.go()
        assert [answer.text.count("[DONE]") for answer in answers] == [1, 1]
        assert len(upstream.requests) == 2


async def test_c03_settings_that_the_plugin_refuses_leave_everything_as_it_was(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.json(chat_answer("hello"))
    async with start_box(PLAIN) as box:
        await reload(box, up(upstream))
        bad = '[plugins.openai.endpoints.up]\nbase_url = "nonsense"\n[engines]\nttl_s = 1\n'
        refused = await reload(box, bad)
        assert (refused.status_code, refused.json()["code"]) == (400, "config_error")
        assert "endpoints.up.base_url" in refused.json()["title"]
        shown = (await box.http.get("/api/config")).json()["config"]
        assert shown["engines"]["ttl_s"] == 600
        assert (await ask(box)).status_code == 200
        assert any("endpoints.up.base_url" in line for line in await warnings(box))
        await reload(box, up(upstream))
        assert await warnings(box) == []


async def test_an_unknown_key_is_a_warning_as_long_as_it_is_there(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(PLAIN) as box:
        await reload(box, up(upstream, more="modles = []"))
        [warning] = await warnings(box)
        assert "did you mean plugins.openai.endpoints.up.models?" in warning
        await reload(box, up(upstream))
        assert await warnings(box) == []


async def test_a_plugin_that_failed_at_the_start_works_once_it_is_mended(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.json(chat_answer("hello"))
    bad = f'{PLAIN}[plugins.openai.endpoints.up]\nbase_url = "nonsense"\n'
    async with start_box(bad) as box:
        assert (await box.http.get("/api/status")).json()["plugins_failed"] == 1
        await reload(box, up(upstream))
        assert (await ask(box)).status_code == 200
        assert (await box.http.get("/api/status")).json()["plugins_failed"] == 0


OLLAMA = '[plugins.ollama]\nbase_url = "http://127.0.0.1:{}"\n'


async def test_a_plugin_that_loads_models_waits_for_the_restart(start_box: StartBox) -> None:
    async with start_box(PLAIN) as box:
        assert await effects(box, OLLAMA.format(9)) == {"now"}, "nothing of it is there yet"
        assert await effects(box, OLLAMA.format(10)) == {"restart"}
        assert "after a restart: plugins.ollama.base_url" in json.dumps(await warnings(box))


async def test_a_name_that_another_plugin_has_is_refused(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(PLAIN + OLLAMA.format(9)) as box:
        refused = await reload(box, OLLAMA.format(9) + up(upstream, "ollama"))
        assert refused.status_code == 400
        assert "there is a backend 'ollama' already" in refused.json()["title"]
