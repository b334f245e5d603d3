"""What requests of each wire may hold, as it arrives at an endpoint of either kind."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cerberus_core.testing import Reply, ScriptedServer
from tests.conftest import Box, StartBox, endpoint
from tests.gateway.test_wires_http import ANTHROPIC, CALL, OPENAI, TOOL, USER, chat, messages

pytestmark = pytest.mark.anyio

PNG = "iVBORw0KGgo="
IMAGE = f"data:image/png;base64,{PNG}"
SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
CHAT: dict[str, Any] = {"model": "up/m", "messages": [USER]}
MESSAGES: dict[str, Any] = {"model": "up/m", "max_tokens": 50, "messages": [USER]}
RESPONSES: dict[str, Any] = {"model": "up/m", "input": "?"}


@pytest.fixture(
    params=[pytest.param("chat", marks=OPENAI), pytest.param("messages", marks=ANTHROPIC)]
)
async def either(
    start_box: StartBox, upstream: ScriptedServer, request: pytest.FixtureRequest
) -> AsyncIterator[Box]:
    upstream.reply = {"chat": chat, "messages": messages}[request.param]
    async with start_box(endpoint(upstream, more=f'wires = ["{request.param}"]\n')) as box:
        yield box


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    """Whose endpoint speaks what most do."""
    async with start_box(endpoint(upstream)) as box:
        yield box


async def post(box: Box, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await box.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.wire("chat", "an image")
async def test_an_image_of_chat_arrives(either: Box, upstream: ScriptedServer) -> None:
    content = [{"type": "image_url", "image_url": {"url": IMAGE}}]
    await post(
        either, "/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": content}]}
    )
    assert PNG in upstream.requests[0].body.decode()


@pytest.mark.wire("messages", "an image")
async def test_an_image_of_messages_arrives(either: Box, upstream: ScriptedServer) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    content = [{"type": "image", "source": source}]
    await post(either, "/v1/messages", {**MESSAGES, "messages": [{**USER, "content": content}]})
    assert PNG in upstream.requests[0].body.decode()


@pytest.mark.wire("responses", "an image")
async def test_an_image_of_responses_arrives(either: Box, upstream: ScriptedServer) -> None:
    content = [{"type": "input_image", "image_url": IMAGE}]
    await post(either, "/v1/responses", {**RESPONSES, "input": [{**USER, "content": content}]})
    assert PNG in upstream.requests[0].body.decode()


@OPENAI
@pytest.mark.wire("chat", "audio")
async def test_audio_arrives_as_it_was_sent(box: Box, upstream: ScriptedServer) -> None:
    content = [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]
    said = [{"role": "user", "content": content}]
    await post(box, "/v1/chat/completions", {**CHAT, "messages": said})
    assert upstream.requests[0].json()["messages"] == said


@pytest.mark.wire("chat", "a stop sequence")
async def test_stop_of_chat_arrives(either: Box, upstream: ScriptedServer) -> None:
    await post(either, "/v1/chat/completions", {**CHAT, "stop": ["END"]})
    asked = upstream.requests[0].json()
    assert (asked.get("stop") or asked.get("stop_sequences")) == ["END"]


@pytest.mark.wire("messages", "a stop sequence")
async def test_stop_sequences_of_messages_arrive(either: Box, upstream: ScriptedServer) -> None:
    await post(either, "/v1/messages", {**MESSAGES, "stop_sequences": ["END"]})
    asked = upstream.requests[0].json()
    assert (asked.get("stop") or asked.get("stop_sequences")) == ["END"]


@OPENAI
@pytest.mark.wire("chat", "JSON by a schema")
@pytest.mark.wire("responses", "JSON by a schema")
async def test_a_schema_arrives(box: Box, upstream: ScriptedServer) -> None:
    upstream.reply = chat
    named = {"name": "town", "schema": SCHEMA, "strict": True}
    form = {"type": "json_schema", "json_schema": named}
    await post(box, "/v1/chat/completions", {**CHAT, "response_format": form})
    text = {"format": {"type": "json_schema", **named}}
    await post(box, "/v1/responses", {**RESPONSES, "text": text})
    for received in upstream.requests:
        assert received.json()["response_format"]["json_schema"]["schema"] == SCHEMA


@OPENAI
@pytest.mark.wire("chat", "a tool call")
async def test_a_tool_call_of_chat_passes(box: Box, upstream: ScriptedServer) -> None:
    upstream.reply = chat
    tool = {"type": "function", "function": {"name": TOOL["name"], "parameters": SCHEMA}}
    told = await post(box, "/v1/chat/completions", {**CHAT, "tools": [tool]})
    assert told["choices"][0]["message"]["tool_calls"] == [CALL]


@ANTHROPIC
@pytest.mark.wire("chat", "a tool call")
@pytest.mark.wire("messages", "a tool call")
@pytest.mark.wire("responses", "a tool call")
async def test_a_tool_call_of_an_endpoint_of_messages(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"town": "Bern"}}
    usage = {"input_tokens": 9, "output_tokens": 3}
    upstream.reply = Reply.json(
        {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [use],
         "stop_reason": "tool_use", "stop_sequence": None, "usage": usage}
    )  # fmt: skip
    async with start_box(endpoint(upstream, more='wires = ["messages"]\n')) as box:
        tool = {"type": "function", "function": {"name": TOOL["name"], "parameters": SCHEMA}}
        told = await post(box, "/v1/chat/completions", {**CHAT, "tools": [tool]})
        [call] = told["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"town": "Bern"}
        told = await post(box, "/v1/messages", {**MESSAGES, "tools": [TOOL]})
        assert told["content"] == [use]
        flat = {"type": "function", "name": TOOL["name"], "parameters": SCHEMA}
        told = await post(box, "/v1/responses", {**RESPONSES, "tools": [flat]})
        [item] = told["output"]
        assert (item["type"], json.loads(item["arguments"])) == ("function_call", {"town": "Bern"})


@OPENAI
@pytest.mark.wire("completions", "whole", "a stream", "a stop sequence")
async def test_completions_pass(box: Box, upstream: ScriptedServer) -> None:
    asked = {"model": "up/m", "prompt": "one two", "stop": ["END"]}
    assert (await post(box, "/v1/completions", asked))["choices"][0]["text"] == "one two"
    answer = await box.http.post("/v1/completions", json={**asked, "stream": True})
    assert '"one"' in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    assert [received.json()["stop"] for received in upstream.requests] == [["END"], ["END"]]


@OPENAI
@pytest.mark.wire("embeddings", "vectors")
async def test_embeddings_pass(box: Box) -> None:
    told = await post(box, "/v1/embeddings", {"model": "up/m", "input": ["one", "three"]})
    assert [row["embedding"] for row in told["data"]] == [[3.0, 3.0], [5.0, 5.0]]


@OPENAI
@pytest.mark.wire("rerank", "documents by their scores")
async def test_rerank_of_every_server_is_told_in_one_shape(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    scored = [{"index": 0, "score": 0.1}, {"index": 1, "score": 0.9}]
    results = [{"index": 0, "relevance_score": 0.1}, {"index": 1, "relevance_score": 0.9}]
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    of_vllm = [{**each, "document": {"text": "ab"[each["index"]]}} for each in results]
    shapes = {
        "llama.cpp": {"object": "list", "model": "m", "results": results, "usage": usage},
        "vLLM": {"id": "r1", "model": "m", "results": of_vllm, "usage": {"total_tokens": 9}},
        "TEI": scored,
    }
    async with start_box(endpoint(upstream, more='wires = ["rerank"]\n')) as box:
        for name, shape in shapes.items():
            upstream.reply = Reply.json(shape)
            asked = {"model": "up/m", "query": "?", "documents": ["a", "b"]}
            told = await post(box, "/v1/rerank", {**asked, "return_documents": True})
            assert [row["index"] for row in told["results"]] == [1, 0], name
            assert told["results"][0]["relevance_score"] == 0.9
            assert told["results"][0]["document"] == {"text": "b"}
            assert (told["object"], told["model"]) == ("list", "up/m")
            assert upstream.requests[-1].json()["model"] == "m"
            if name != "TEI":
                assert told["usage"]["cerberus"]["request_id"]
        refused = await box.http.post("/v1/rerank", json={**asked, "documents": []})
        assert (refused.status_code, len(upstream.requests)) == (400, 3)
        upstream.reply = Reply.json({"error": {"message": "no such thing"}})
        failed = await box.http.post("/v1/rerank", json=asked)
        assert (failed.status_code, "no such thing" in failed.text) == (502, True)


@ANTHROPIC
@pytest.mark.wire("completions", "refused where it is not spoken")
@pytest.mark.wire("rerank", "refused where it is not spoken")
@pytest.mark.wire("embeddings", "refused where there are none")
async def test_what_an_endpoint_of_messages_does_not_speak_is_refused(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream, more='wires = ["messages"]\n')) as box:
        for path, more in (
            ("/v1/completions", {"prompt": "?"}),
            ("/v1/rerank", {"query": "?", "documents": ["a"]}),
            ("/v1/embeddings", {"input": "?"}),
        ):
            answer = await box.http.post(path, json={"model": "up/m", **more})
            assert answer.status_code >= 400
            assert "up/m" in answer.json()["error"]["message"]
    assert upstream.requests == []


@OPENAI
@pytest.mark.wire("chat", "refusals in its words")
async def test_a_refusal_of_chat_keeps_its_words(box: Box, upstream: ScriptedServer) -> None:
    upstream.reply = Reply.json({"error": {"message": "slow down"}}, status=429)
    answer = await box.http.post("/v1/chat/completions", json=CHAT)
    assert (answer.status_code, answer.json()["error"]["message"]) == (429, "slow down")


@pytest.mark.wire("models", "the list", "one of them")
async def test_models_are_told(either: Box) -> None:
    listed = (await either.http.get("/v1/models")).json()["data"]
    assert [row["id"] for row in listed] == ["up/m"]
    assert (await either.http.get("/v1/models/up%2Fm")).json()["id"] == "up/m"
