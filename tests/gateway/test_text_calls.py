"""A model that writes its tool calls into the text, as the official clients see it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cerberus_core.testing import Received, Reply, ScriptedServer
from cerberus_core.testing.scripted import DONE, USAGE, chunk, sse
from tests.conftest import Box, StartBox, endpoint
from tests.gateway.test_wires_http import OPENAI, TOOL, USER, anthropic_client, openai_client

pytestmark = [pytest.mark.anyio, OPENAI]

WRITTEN = ["I look.\n", '{"name": "wea', 'ther", "arguments": {"town"', ': "Bern"}}']
PARAMETERS: Any = TOOL["input_schema"]
CHAT: dict[str, Any] = {
    "model": "up/m",
    "messages": [USER],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}],
}
FLAT: Any = [{"type": "function", "name": "weather", "parameters": PARAMETERS}]


def writes(received: Received) -> Reply:
    asked = received.json()
    if not asked.get("stream"):
        message = {"role": "assistant", "content": "".join(WRITTEN)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return Reply.json(
            {"id": "c1", "object": "chat.completion", "model": "m", "created": 1,
             "choices": [choice], "usage": USAGE}
        )  # fmt: skip
    pieces = [chunk({"content": text}) for text in WRITTEN]
    last = chunk(usage=USAGE)
    last["choices"] = []
    return Reply.stream([*map(sse, [*pieces, chunk({}, finish="stop"), last]), DONE])


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    upstream.reply = writes
    more = '[models."up/m"]\ntext_calls = true\n'
    async with start_box(endpoint(upstream, more=more)) as box:
        yield box


@pytest.mark.wire("chat", "a tool call written into the text")
async def test_openais_chat_client_gets_a_call(box: Box) -> None:
    async with openai_client(box) as client:
        whole = (await client.chat.completions.create(**CHAT)).choices[0]
        assert (whole.message.content, whole.finish_reason) == ("I look.", "tool_calls")
        [call] = whole.message.tool_calls or []
        assert call.type == "function"
        assert (call.function.name, json.loads(call.function.arguments)) == (
            "weather",
            {"town": "Bern"},
        )
        async with client.chat.completions.stream(**CHAT) as stream:
            final = (await stream.get_final_completion()).choices[0]
        assert (final.message.content, final.finish_reason) == ("I look.\n", "tool_calls")
        [streamed] = final.message.tool_calls or []
        assert streamed.function.arguments == call.function.arguments


@pytest.mark.wire("messages", "a tool call written into the text")
async def test_anthropics_client_gets_a_tool_use(box: Box) -> None:
    asked: Any = {"model": "up/m", "max_tokens": 50, "messages": [USER], "tools": [TOOL]}
    async with anthropic_client(box) as client:
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        for told in (await client.messages.create(**asked), streamed):
            assert [block.type for block in told.content] == ["text", "tool_use"]
            use = told.content[1]
            assert use.type == "tool_use"
            assert (use.name, use.input, told.stop_reason) == (
                "weather",
                {"town": "Bern"},
                "tool_use",
            )


@pytest.mark.wire("responses", "a tool call written into the text")
async def test_openais_responses_client_gets_a_call(box: Box) -> None:
    async with openai_client(box) as client:
        whole = await client.responses.create(model="up/m", input="?", tools=FLAT)
        async with client.responses.stream(model="up/m", input="?", tools=FLAT) as stream:
            streamed = await stream.get_final_response()
        for told in (whole, streamed):
            [call] = [item for item in told.output if item.type == "function_call"]
            assert (call.name, json.loads(call.arguments)) == ("weather", {"town": "Bern"})


async def test_without_tools_in_the_request_or_with_none_to_be_called_the_text_is_text(
    box: Box,
) -> None:
    for body in (
        {key: value for key, value in CHAT.items() if key != "tools"},
        {**CHAT, "tool_choice": "none"},
    ):
        answer = (await box.http.post("/v1/chat/completions", json=body)).json()
        [choice] = answer["choices"]
        assert choice["message"]["content"] == "".join(WRITTEN)
        assert choice["finish_reason"] == "stop"


async def test_where_the_setting_is_unset_the_text_is_text(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = writes
    async with start_box(endpoint(upstream)) as box:
        answer = await box.http.post("/v1/chat/completions", json={**CHAT, "stream": True})
    assert "tool_calls" not in answer.text
