"""The official `anthropic` package takes what we say, and we take what it says."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic._exceptions import APIStatusError
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from pydantic import TypeAdapter

from cerberus_core.errors import LoadFailed, NoRoom, Overloaded
from cerberus_core.gateway.wires import messages
from cerberus_core.gateway.wires.messages_over_chat import Asked, answer, estimate_tokens, request
from cerberus_core.testing import ScriptedServer
from cerberus_core.testing.scripted import Received, Reply, chat_answer
from tests.gateway.messages_kit import call, chat_stream, translated

pytestmark = pytest.mark.anyio

ANY_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
TOOLS: Any = [
    {"name": name, "description": "d", "input_schema": {"type": "object"}} for name in ("f", "g")
]
HI: Any = [{"role": "user", "content": "hi"}]


class Chat:
    """A gateway of a few lines before a chat backend that answers `reply`."""

    def __init__(self, reply: Callable[[dict[str, Any]], Any]) -> None:
        self._reply = reply
        self.asked: list[dict[str, Any]] = []

    def __call__(self, received: Received) -> Reply:
        parsed = messages.parse(received.body, counting=received.path.endswith("/count_tokens"))
        if received.path.endswith("/count_tokens"):
            return Reply.json({"input_tokens": estimate_tokens(parsed.decoded())})
        fields = request(parsed.decoded())
        self.asked.append(fields)
        asked = Asked(model=parsed.model, request_id="r1")
        given = self._reply(fields)
        if not parsed.stream:
            return Reply.json(answer(given, asked))
        events, _ = translated(given, asked)
        parts = [
            b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode())
            for event in events
        ]
        for event in events:
            ANY_EVENT.validate_python(event, strict=True)
        return Reply.stream([messages.KEEP_ALIVE, *parts[:2], messages.KEEP_ALIVE, *parts[2:]])


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


def client(server: ScriptedServer) -> AsyncAnthropic:
    return AsyncAnthropic(
        base_url=server.base_url.removesuffix("/v1"), auth_token="t", api_key=None, max_retries=0
    )


async def test_a_streamed_turn_with_thinking_text_and_two_calls(server: ScriptedServer) -> None:
    server.reply = chat = Chat(
        lambda _: chat_stream(
            {"reasoning_content": "Which "},
            {"reasoning_content": "file?"},
            {"content": "I look: "},
            {"content": "é 😀"},
            call('{"path":', name="f", id="call_1", index=0),
            call(' "a.txt"}', index=0),
            call("", name="g", id="call_2", index=1),
            finish="tool_calls",
        )
    )
    async with client(server) as anthropic:
        async with anthropic.messages.stream(
            model="up/m", max_tokens=100, messages=HI, tools=TOOLS, system="s"
        ) as stream:
            told = [event async for event in stream]
            message = await stream.get_final_message()
        text = "".join(event.text for event in told if event.type == "text")
        [usage] = [event.usage.to_dict() for event in told if event.type == "message_delta"]
        assert usage["cerberus"] == {"request_id": "r1"}
        assert text == "I look: é 😀"
        assert message.stop_reason == "tool_use"
        assert [block.type for block in message.content] == [
            "thinking",
            "text",
            "tool_use",
            "tool_use",
        ]
        assert [b.input for b in message.content if b.type == "tool_use"] == [
            {"path": "a.txt"},
            {},
        ]
        assert (message.usage.input_tokens, message.usage.output_tokens) == (5, 2)
        # What the package kept goes back as history.
        results: Any = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "ok"}
            for block in message.content
            if block.type == "tool_use"
        ]
        history = [*HI, message.to_param(), {"role": "user", "content": results}]
        async with anthropic.messages.stream(
            model="up/m", max_tokens=100, messages=history, tools=TOOLS
        ) as stream:
            await stream.get_final_message()
    roles = [message["role"] for message in chat.asked[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    calls = chat.asked[1]["messages"][1]["tool_calls"]
    assert [c["id"] for c in calls] == ["call_1", "call_2"]


async def test_a_whole_answer_and_a_count(server: ScriptedServer) -> None:
    server.reply = Chat(lambda _: chat_answer("hello"))
    async with client(server) as anthropic:
        message = await anthropic.messages.create(model="up/m", max_tokens=9, messages=HI)
        count = await anthropic.messages.count_tokens(model="up/m", messages=HI, tools=TOOLS)
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": "hello"}]
    assert Message.model_validate(message.to_dict(), strict=True).usage.output_tokens == 2
    assert MessageTokensCount.model_validate(count.to_dict()).input_tokens > 10


def test_a_thinking_block_needs_the_field_of_its_signature() -> None:
    body = chat_answer("a")
    body["choices"][0]["message"]["reasoning_content"] = "b"
    out = answer(body, Asked(model="m"))
    assert Message.model_validate(out, strict=True).content[0].type == "thinking"
    del out["content"][0]["signature"]
    with pytest.raises(ValueError, match="signature"):
        Message.model_validate(out, strict=True)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Overloaded("busy"), 429, "rate_limit_error"),
        (NoRoom("no room", hint="Unload one."), 503, "overloaded_error"),
        (LoadFailed("broken file"), 503, "api_error"),
    ],
)
async def test_errors_are_the_packages_own(
    server: ScriptedServer, error: Any, status: int, kind: str
) -> None:
    body = messages.error_body(error, "r1")
    server.reply = Reply(status=status, parts=[body], framing="length")
    async with client(server) as anthropic:
        with pytest.raises(APIStatusError) as caught:
            await anthropic.messages.create(model="m", max_tokens=9, messages=HI)
    assert (caught.value.status_code, caught.value.type) == (status, kind)
    assert caught.value.error_code == error.code
    words = error.message if error.hint is None else f"{error.message}. {error.hint}"
    assert caught.value.api_message == words


async def test_g06_an_error_within_a_stream_is_one_for_the_package(server: ScriptedServer) -> None:
    events, _ = translated(chat_stream({"content": "a"}))
    start = b"event: message_start\ndata: " + json.dumps(events[0]).encode() + b"\n\n"
    server.reply = Reply.stream([start, messages.error_event(NoRoom("gone"), "r1")])
    async with client(server) as anthropic:
        with pytest.raises(APIStatusError, match="gone"):
            async with anthropic.messages.stream(model="m", max_tokens=9, messages=HI) as stream:
                await stream.get_final_message()
