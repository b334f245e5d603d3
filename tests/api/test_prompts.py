"""Prompts are kept for keys that ask for it, and nobody else's, nowhere; what asks again."""

import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from cerberus_core.cli.why import curl_line
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import chat_answer, chat_chunks
from cerberus_core.usage import Prompts
from cerberus_core.usage.prompts import MOST
from cerberus_core.usage.said import said
from cerberus_core.values import new_id
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

SECRET, ANSWER = "my-secret-question", "my-secret-answer"
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": SECRET}]},
    "/v1/completions": {"prompt": SECRET},
    "/v1/messages": {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 9},
    "/v1/responses": {"input": SECRET},
}


async def a_key(box: Box, *, store: bool) -> str:
    made = await box.http.post("/api/keys", json={"name": "k", "store_prompts": store})
    return str(made.json()["token"])


async def ask(box: Box, path: str, token: str, *, stream: bool = False) -> httpx.Response:
    body = {"model": "up/m", "stream": stream, **BODIES[path]}
    headers = {"authorization": f"Bearer {token}"}
    return await box.http.post(path, json=body, headers=headers)


def says(upstream: ScriptedServer, *, stream: bool = False) -> None:
    pieces = [ANSWER[:5], ANSWER[5:]]
    upstream.reply = (
        Reply.stream(chat_chunks(pieces)) if stream else Reply.json(chat_answer(ANSWER))
    )


async def kept(box: Box, request_id: str) -> httpx.Response:
    with anyio.fail_after(5):
        while True:
            answer = await box.http.get(f"/api/requests/{request_id}/prompt")
            if answer.status_code == 200:
                return answer
            await anyio.sleep(0.01)


def holding(folder: Path, *words: str) -> list[Path]:
    return [
        file
        for file in folder.rglob("*")
        if file.is_file() and any(word.encode() in file.read_bytes() for word in words)
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_a_key_that_asks_for_it_has_prompt_and_answer_kept(
    start_box: StartBox, upstream: ScriptedServer, path: str, stream: bool
) -> None:
    says(upstream, stream=stream)
    async with start_box(endpoint(upstream)) as box:
        answer = await ask(box, path, await a_key(box, store=True), stream=stream)
        request_id = answer.headers["x-request-id"]
        told = (await kept(box, request_id)).json()
        receipt = (await box.http.get(f"/api/requests/{request_id}")).json()
        file = box.folders.prompts / f"{request_id}.json"
    assert answer.status_code == 200, answer.text
    assert json.loads(told["request"])["model"] == "up/m"
    assert SECRET in told["request"]
    assert (told["path"], told["answer"]) == (path, ANSWER)
    assert (told["request_cut"], told["answer_cut"]) == (False, False)
    assert receipt["prompt_kept"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("who", ["a key", "the owner"])
@pytest.mark.parametrize("stream", [False, True])
async def test_without_the_flag_no_byte_of_it_is_anywhere(
    start_box: StartBox,
    upstream: ScriptedServer,
    capfd: pytest.CaptureFixture[str],
    who: str,
    stream: bool,
) -> None:
    async with start_box(endpoint(upstream)) as box:
        token = box.token if who == "the owner" else await a_key(box, store=False)
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
            says(upstream, stream=stream)
            assert (await ask(box, path, token, stream=stream)).status_code == 200
            upstream.reply = Reply.json({"error": {"message": "boom"}}, status=500)
            failed = await ask(box, path, token, stream=stream)
            missing = await box.http.get(f"/api/requests/{failed.headers['x-request-id']}/prompt")
            assert missing.status_code == 404
        await box.records(6)
        folders = box.folders
    assert holding(folders.data, SECRET, ANSWER) == []
    assert holding(folders.config, SECRET, ANSWER) == []
    told = capfd.readouterr()
    assert SECRET not in told.out + told.err
    assert ANSWER not in told.out + told.err


@pytest.mark.parametrize("path", list(BODIES))
@pytest.mark.parametrize("store", [True, False])
async def test_the_line_of_curl_asks_again_without_a_key_in_it(
    start_box: StartBox, upstream: ScriptedServer, path: str, store: bool
) -> None:
    async with start_box(endpoint(upstream)) as box:
        token = await a_key(box, store=store)
        first = await ask(box, path, token)
        assert first.status_code == 200, first.text
        request_id = first.headers["x-request-id"]
        prompt = (await kept(box, request_id)).json() if store else None
        receipt = (await box.http.get(f"/api/requests/{request_id}")).json()
        line = curl_line(receipt, box.url, prompt)
        assert token not in line
        assert box.token not in line
        assert (SECRET in line) == store
        environment = {**os.environ, "CERBERUS_TOKEN": token}
        done = await anyio.run_process(["bash", "-c", line], env=environment, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert "error" not in answer or answer["error"] is None, answer
    assert len(upstream.requests) == 2
    assert ((SECRET if store else "…") in upstream.requests[1].body.decode()) or (
        not store and "\\u2026" in upstream.requests[1].body.decode()
    )


async def test_an_answer_without_an_end_is_kept_as_far_as_there_is_room(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    pieces = ["word " * 2000] * 300
    upstream.reply = Reply.stream(chat_chunks(pieces))
    async with start_box(endpoint(upstream)) as box:
        token = await a_key(box, store=True)
        answer = await ask(box, "/v1/chat/completions", token, stream=True)
        told = (await kept(box, answer.headers["x-request-id"])).json()
    assert answer.text.count("word ") == 600_000, "the client has it all"
    assert (len(told["answer"]), told["answer_cut"]) == (MOST, True)


def some(folder: Path, **more: Any) -> Prompts:
    return Prompts(folder, **{"days": 1, "most_bytes": 1 << 30, **more})


def test_what_is_kept_has_a_measure(tmp_path: Path) -> None:
    prompts = some(tmp_path / "p")
    answer = json.dumps(chat_answer("é" * (MOST + 1))).encode()
    request_id = new_id()
    prompts.keep(request_id, "k", "/v1/chat/completions", request=b"x" * (MOST + 1), answer=answer)
    prompts.close()
    found = prompts.find(request_id)
    assert found is not None
    assert (len(found.request), found.request_cut) == (MOST, True)
    assert (len(found.answer or ""), found.answer_cut) == (MOST, True)
    assert prompts.find("../../etc/passwd") is None
    assert prompts.find(new_id()) is None


def test_the_old_and_what_is_too_much_goes(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    prompts = some(tmp_path / "p", most_bytes=2500)
    ids = [new_id((now - timedelta(hours=hours)).timestamp()) for hours in (30, 3, 2, 1)]
    for request_id in ids:
        prompts.keep(request_id, "k", "/v1/chat/completions", request=b"x" * 1000, answer=b"")
    prompts.close()
    prompts.sweep(now)
    assert [prompts.find(one) is not None for one in ids] == [False, False, True, True]


def test_a_disk_that_refuses_costs_the_prompt_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("no folder")
    prompts = some(tmp_path / "p")
    prompts.keep(new_id(), "k", "/v1/chat/completions", request=b"{}", answer=b"")
    prompts.close()
    assert "can't be kept" in (prompts.warning or "")


async def test_a_disk_that_refuses_costs_no_answer(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    def blocked(folders: Any) -> None:
        folders.data.mkdir(parents=True, exist_ok=True)
        folders.prompts.write_text("no folder")

    says(upstream)
    async with start_box(endpoint(upstream), prepare=blocked) as box:
        answer = await ask(box, "/v1/chat/completions", await a_key(box, store=True))
        assert answer.status_code == 200
        with anyio.fail_after(5):
            while True:
                warnings = (await box.http.get("/api/status")).json()["warnings"]
                if any("can't be kept" in line for line in warnings):
                    break
                await anyio.sleep(0.01)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", None),
        (b"<html>", None),
        (b"[1]", None),
        (b'{"error": {"message": "x"}}', None),
        (b'{"choices": [{"message": {"content": null, "tool_calls": []}}]}', None),
        (b'{"choices": [{"index": 1, "text": "b"}, {"index": 0, "text": "a"}]}', "a"),
        (b'{"content": [{"type": "thinking"}, {"type": "text", "text": "a"}]}', "a"),
        (b'{"output": [{"content": [{"type": "output_text", "text": "a"}]}]}', "a"),
        (b': hi\n\ndata: {"choices": [{"index": 0, "text": "a"}]}\n\ndata: [DONE]\n\n', "a"),
    ],
)
def test_the_text_of_an_answer_of_any_shape(data: bytes, text: str | None) -> None:
    assert said(data) == text
