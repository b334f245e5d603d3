"""Who answers where the model that was asked can't: before the first byte, and never after it."""

import json
from typing import Any

import anyio
import pytest

from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.testing.scripted import CLOSE, Script, Wait, chat_chunks, chunk, sse
from tests.conftest import Box, StartBox

pytestmark = pytest.mark.anyio

ASK = {"messages": [{"role": "user", "content": "hi"}]}


def config(first: ScriptedServer, second: ScriptedServer, more: str = "") -> str:
    return f"""
blocked_plugins = ["hello", "llamacpp", "ollama", "lmstudio", "amd", "nvidia", "rapl"]
[plugins.openai.endpoints.first]
base_url = "{first.base_url}"
models = ["m"]
[plugins.openai.endpoints.second]
base_url = "{second.base_url}"
models = ["m"]
[models."first/m"]
fallbacks = ["second/m"]
{more}
"""


def error(status: int, message: str, **more: str) -> Reply:
    body = {"error": {"message": message, **more}}
    return Reply.json(body, status=status)


def said(answer: Any) -> str:
    text = answer.text
    if not text.startswith("data:") and not text.startswith(":"):
        return str(json.loads(text)["choices"][0]["message"]["content"])
    events = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    return "".join(
        choice["delta"].get("content") or ""
        for event in events
        for choice in json.loads(event)["choices"]
    )


async def ask(box: Box, *, stream: bool, model: str = "first/m") -> Any:
    body = {**ASK, "model": model, "stream": stream}
    return await box.http.post("/v1/chat/completions", json=body)


FAILURES = {
    "refuses": error(500, "boom"),
    "busy": error(429, "slow down"),
    "too long for it": error(400, "too long", code="context_length_exceeded"),
    "a wrong key": error(401, "who?"),
    "no JSON": Reply(status=200, parts=[b"<html>"], framing="length"),
    "hangs up": Reply(raw_head=b"", parts=[CLOSE]),
    "error event": Reply.stream([sse({"error": {"message": "boom"}})]),
}


CASES = [(how, stream) for how in FAILURES for stream in (True, False)]


@pytest.mark.parametrize(
    ("how", "stream"), [case for case in CASES if case != ("error event", False)]
)
async def test_the_next_one_answers_and_the_record_says_why(
    start_box: StartBox, how: str, stream: bool
) -> None:
    async with ScriptedServer(FAILURES[how]) as first, ScriptedServer() as second:
        second.reply = Reply.stream(chat_chunks("Hello")) if stream else second.reply
        async with start_box(config(first, second)) as box:
            answer = await ask(box, stream=stream)
            record = await box.record()
        assert answer.status_code == 200
        assert said(answer)
        assert (len(first.requests), len(second.requests)) == (1, 1)
    assert (record.model, record.status, record.error) == ("second/m", 200, None)
    [tried] = record.tried
    assert tried.model == "first/m"
    assert tried.why


async def test_a_fault_of_the_request_is_nobody_elses_to_answer(start_box: StartBox) -> None:
    async with ScriptedServer(error(400, "no such role")) as first, ScriptedServer() as second:
        async with start_box(config(first, second)) as box:
            answer = await ask(box, stream=False)
            record = await box.record()
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, "no such role")
        assert (second.requests, record.tried) == ([], ())


async def test_once_something_was_said_nobody_else_takes_over(start_box: StartBox) -> None:
    begun = Reply.stream([sse(chunk({"content": "Hel"})), CLOSE])
    async with ScriptedServer(begun) as first, ScriptedServer() as second:
        async with start_box(config(first, second)) as box:
            answer = await ask(box, stream=True)
            record = await box.record()
        assert "Hel" in answer.text
        assert '"error"' in answer.text
        assert (second.requests, record.tried) == ([], ())


async def test_signs_of_life_are_no_answer(start_box: StartBox) -> None:
    gate = Wait()
    slow: Script = Reply.stream([gate, sse({"error": {"message": "boom"}})])
    gateway = "[gateway]\nhold_s = 0.01\nkeepalive_s = 0.1\n"
    async with ScriptedServer(slow) as first, ScriptedServer() as second:
        second.reply = Reply.stream(chat_chunks("Hello"))
        async with start_box(config(first, second, gateway)) as box, anyio.create_task_group() as t:
            answers: list[Any] = []

            async def one() -> None:
                answers.append(await ask(box, stream=True))

            t.start_soon(one)
            await first.arrived()
            await anyio.sleep(0.15)
            gate.go()
        assert said(answers[0]) == "Hello"
        assert answers[0].text.startswith(": keep-alive")
        assert answers[0].text.count("[DONE]") == 1


async def test_where_all_fail_the_last_one_is_told(start_box: StartBox) -> None:
    async with (
        ScriptedServer(error(500, "first boom")) as first,
        ScriptedServer(error(503, "second boom")) as second,
        start_box(config(first, second)) as box,
    ):
        answer = await ask(box, stream=False)
        record = await box.record()
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "second boom")
    assert [(step.model, step.why) for step in record.tried] == [("first/m", "first boom")]


async def test_a_model_that_is_not_there_has_fallbacks_too(start_box: StartBox) -> None:
    more = '[models."first/gone"]\naliases = ["coder"]\nfallbacks = ["nowhere/x", "second/m"]\n'
    async with ScriptedServer() as first, ScriptedServer() as second:
        async with start_box(config(first, second, more)) as box:
            for name in ("first/gone", "coder"):
                answer = await ask(box, stream=False, model=name)
                assert answer.status_code == 200, answer.text
            record = await box.record()
        assert [step.model for step in record.tried] == ["coder", "nowhere/x"]
