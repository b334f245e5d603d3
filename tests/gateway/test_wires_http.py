"""Each wire over each kind of endpoint, through a whole daemon, with the official clients."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from cerberus_core.testing import Received, Reply, ScriptedServer
from cerberus_core.testing.scripted import DONE, RESET, chunk, sse
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
TOOL = {
    "name": "weather",
    "description": "The weather of a town.",
    "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}},
}
USER: Any = {"role": "user", "content": "?"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"town": "Bern"}'},
}


def chat(received: Received) -> Reply:
    """An endpoint of Chat Completions: a text, or a call where there are tools."""
    asked = received.json()
    calls = [CALL] if asked.get("tools") else None
    finish = "tool_calls" if calls else "stop"
    if not asked.get("stream"):
        message = {"role": "assistant", "content": None if calls else "Hello", "tool_calls": calls}
        if calls is None:
            del message["tool_calls"]
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return Reply.json(
            {"id": "c1", "object": "chat.completion", "model": asked["model"], "created": 1,
             "choices": [choice], "usage": USAGE}
        )  # fmt: skip
    if calls:
        pieces = [chunk({"tool_calls": [{"index": 0, **CALL}]})]
    else:
        pieces = [chunk({"content": "Hel"}), chunk({"content": "lo"})]
    end = [chunk({}, finish=finish), chunk(usage=USAGE)]
    end[1]["choices"] = []
    return Reply.stream([*map(sse, [*pieces, *end]), DONE])


def messages(received: Received) -> Reply:
    """An endpoint of Messages."""
    asked = received.json()
    whole = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"],
        "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 3},
    }  # fmt: skip
    if not asked.get("stream"):
        return Reply.json(whole)
    start = {**whole, "content": [], "stop_reason": None}
    events = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}}
            for t in ("Hel", "lo")
        ],
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 3},
        },
        {"type": "message_stop"},
    ]
    parts = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]
    return Reply.stream(parts)


OPENAI, ANTHROPIC = pytest.mark.backend("openai"), pytest.mark.backend("anthropic")


@pytest.fixture(
    params=[pytest.param("chat", marks=OPENAI), pytest.param("messages", marks=ANTHROPIC)]
)
async def box(
    start_box: StartBox, upstream: ScriptedServer, request: pytest.FixtureRequest
) -> AsyncIterator[Box]:
    upstream.reply = {"chat": chat, "messages": messages}[request.param]
    wires = f'wires = ["{request.param}"]\n'
    async with start_box(endpoint(upstream, more=wires)) as box:
        yield box


def openai_client(box: Box) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{box.url}/v1", api_key=box.token, max_retries=0)


def anthropic_client(box: Box) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=box.url, api_key=box.token, max_retries=0)


@pytest.mark.wire("messages", "whole", "a stream")
async def test_anthropics_package_whole_and_streamed(box: Box) -> None:
    asked: Any = {
        "model": "up/m", "max_tokens": 50, "system": "Be brief.",
        "messages": [{"role": "user", "content": "hi"}],
    }  # fmt: skip
    async with anthropic_client(box) as client:
        whole = await client.messages.create(**asked)
        assert [block.text for block in whole.content if block.type == "text"] == ["Hello"]
        assert (whole.model, whole.stop_reason) == ("up/m", "end_turn")
        assert (whole.usage.input_tokens, whole.usage.output_tokens) == (9, 3)
        async with client.messages.stream(**asked) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            final = await stream.get_final_message()
        assert text == "Hello"
        assert (final.model, final.stop_reason, final.usage.output_tokens) == (
            "up/m",
            "end_turn",
            3,
        )
    first, second = await box.records(2)
    for record in (first, second):
        assert (record.path, record.completion_tokens) == ("/v1/messages", 3)
        assert (record.prompt_tokens, record.error) == (9, None)


@pytest.mark.wire("responses", "whole", "a stream")
async def test_openais_responses_whole_and_streamed(box: Box) -> None:
    async with openai_client(box) as client:
        whole = await client.responses.create(model="up/m", input="hi", instructions="Be brief.")
        assert (whole.output_text, whole.status, whole.model) == ("Hello", "completed", "up/m")
        assert whole.usage is not None
        assert (whole.usage.input_tokens, whole.usage.output_tokens) == (9, 3)
        kinds, text = [], ""
        async for event in await client.responses.create(model="up/m", input="hi", stream=True):
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        assert text == "Hello"
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    [record, _] = await box.records(2)
    assert (record.path, record.completion_tokens) == ("/v1/responses", 3)


@pytest.mark.wire("chat", "whole", "a stream")
async def test_openais_chat_whole_and_streamed(box: Box) -> None:
    asked: Any = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}
    async with openai_client(box) as client:
        whole = await client.chat.completions.create(**asked)
        assert (whole.choices[0].message.content, whole.model) == ("Hello", "up/m")
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (9, 3)
        pieces = [
            piece
            async for piece in await client.chat.completions.create(
                **asked, stream=True, stream_options={"include_usage": True}
            )
        ]
        text = "".join(c.delta.content or "" for piece in pieces for c in piece.choices)
        assert text == "Hello"
        assert pieces[-1].usage is not None
        assert pieces[-1].usage.completion_tokens == 3
        assert all(piece.model == "up/m" for piece in pieces)


@OPENAI
@pytest.mark.wire("messages", "a tool call")
@pytest.mark.wire("responses", "a tool call")
async def test_a_tool_call_comes_as_each_client_reads_it(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = chat
    async with start_box(endpoint(upstream)) as box:
        async with anthropic_client(box) as client:
            tools: Any = [TOOL]
            async with client.messages.stream(
                model="up/m",
                max_tokens=50,
                tools=tools,
                messages=[{"role": "user", "content": "?"}],
            ) as stream:
                final = await stream.get_final_message()
            [block] = final.content
            assert block.type == "tool_use"
            assert (block.name, block.input) == ("weather", {"town": "Bern"})
            assert final.stop_reason == "tool_use"
        async with openai_client(box) as client2:
            functions: Any = [
                {"type": "function", "name": "weather", "parameters": TOOL["input_schema"]}
            ]
            whole = await client2.responses.create(model="up/m", input="?", tools=functions)
            [item] = whole.output
            assert item.type == "function_call"
            assert (item.name, json.loads(item.arguments)) == ("weather", {"town": "Bern"})


@OPENAI
@pytest.mark.wire("messages", "refusals in its words")
@pytest.mark.wire("responses", "refusals in its words")
async def test_refusals_are_in_the_clients_own_words(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = Reply.json({"error": {"message": "slow down"}}, status=429)
    async with start_box(endpoint(upstream)) as box:
        async with anthropic_client(box) as client:
            with pytest.raises(anthropic.RateLimitError, match="slow down"):
                await client.messages.create(
                    model="up/m", max_tokens=5, messages=[{"role": "user", "content": "hi"}]
                )
            with pytest.raises(anthropic.NotFoundError, match="no model named"):
                await client.messages.create(
                    model="none", max_tokens=5, messages=[{"role": "user", "content": "hi"}]
                )
        async with openai_client(box) as client2:
            with pytest.raises(openai.BadRequestError, match="not kept here"):
                await client2.responses.create(
                    model="up/m", input="hi", previous_response_id="resp_1"
                )


@OPENAI
async def test_what_would_need_answers_to_be_kept_is_refused_whatever_the_endpoint_speaks(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream, more='wires = ["responses"]')) as box:
        for wish in ({"store": True}, {"previous_response_id": "resp_1"}):
            asked = {"model": "up/m", "input": "hi", **wish}
            answer = await box.http.post("/v1/responses", json=asked)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "stateless")
    assert upstream.requests == []


@OPENAI
@pytest.mark.wire("messages", "errors in a stream")
@pytest.mark.wire("responses", "errors in a stream")
@pytest.mark.parametrize("where", ["before", "after"])
async def test_an_error_in_a_stream_is_an_event_of_its_kind(
    start_box: StartBox, upstream: ScriptedServer, where: str
) -> None:
    begun = [sse(chunk({"content": "Hel"}))] if where == "after" else []
    upstream.reply = Reply.stream([*begun, sse({"error": {"message": "boom"}})])
    async with start_box(endpoint(upstream)) as box:
        async with anthropic_client(box) as client:
            with pytest.raises(anthropic.APIError, match="boom"):
                async with client.messages.stream(
                    model="up/m", max_tokens=5, messages=[{"role": "user", "content": "x"}]
                ) as stream:
                    await stream.get_final_message()
        answer = await box.http.post(
            "/v1/responses", json={"model": "up/m", "input": "x", "stream": True}
        )
    if where == "after":
        assert "event: response.failed" in answer.text
        assert answer.text.count("response.completed") == 0
    else:
        assert answer.status_code == 502
    assert "boom" in answer.text


@OPENAI
@pytest.mark.wire("messages", "tokens counted")
async def test_tokens_are_counted_without_loading(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream)) as box, anthropic_client(box) as client:
        told = await client.messages.count_tokens(
            model="up/m", messages=[{"role": "user", "content": "How many are these? " * 20}]
        )
    assert 50 < told.input_tokens < 200
    assert upstream.requests == []


@ANTHROPIC
@pytest.mark.wire("messages", "tokens counted")
async def test_tokens_are_counted_by_an_endpoint_that_speaks_messages(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    said: Any = [{"role": "user", "content": "How many are these? " * 20}]
    upstream.reply = Reply.json({"input_tokens": 4321})
    async with start_box(endpoint(upstream, more='wires = ["messages"]\n')) as box:
        async with anthropic_client(box) as client:
            told = await client.messages.count_tokens(model="up/m", messages=said)
        assert told.input_tokens == 4321
        [received] = upstream.requests
        assert (received.path, received.json()["model"]) == ("/v1/messages/count_tokens", "m")
        made = await box.http.post("/api/keys", json={"name": "k", "models": ["other/*"]})
        refused = await box.http.post(
            "/v1/messages/count_tokens",
            json={"model": "up/m", "messages": said},
            headers={"authorization": f"Bearer {made.json()['token']}"},
        )
        assert (refused.status_code, len(upstream.requests)) == (404, 1), "a key of other models"


@pytest.mark.parametrize(
    "reply",
    [
        Reply.json({"error": {"message": "none here"}}, status=404),
        Reply.json({"input_tokens": "many"}),
        Reply.json({"input_tokens": -1}),
        Reply(parts=[b"no JSON"]),
        Reply(parts=[RESET]),
    ],
)
async def test_where_the_endpoint_does_not_count_it_is_estimated(
    start_box: StartBox, upstream: ScriptedServer, reply: Reply
) -> None:
    upstream.reply = reply
    async with start_box(endpoint(upstream, more='wires = ["messages"]\n')) as box:
        asked = {"model": "up/m", "messages": [{"role": "user", "content": "word " * 100}]}
        answer = await box.http.post("/v1/messages/count_tokens", json=asked)
    assert 50 < answer.json()["input_tokens"] < 300
    assert len(upstream.requests) >= 1
