"""Each wire on the real engine with the starter model, by the official clients."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.e2e.conftest import MODEL, DaemonProcess, start_daemon, stop_daemon

TOOLED = "llamacpp/tooled"
"""The same model with a chat template that has a place for tools; its own has none."""
TEMPLATE = Path(__file__).with_name("tools.jinja")

pytestmark = [pytest.mark.timeout(300), pytest.mark.backend("llamacpp")]

SCHEMA = {
    "type": "object",
    "properties": {"town": {"type": "string", "maxLength": 12}},
    "required": ["town"],
    "additionalProperties": False,
}
SAID: Any = [{"role": "user", "content": "Say hello."}]
COUNT: Any = [{"role": "user", "content": "Count from one to ten: one, two, three"}]
ASKS_WEATHER: Any = [{"role": "user", "content": "How is the weather in Bern?"}]
TOWNS = ("Paris", "Rome", "Oslo")
"""Of which it was told before: so small a model calls a tool where it has seen it done."""
STEADY: Any = {"temperature": 0, "seed": 1}


@pytest.fixture(scope="module")
def daemon(starter_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One for all tests of this file: they load the model once."""
    folder = tmp_path_factory.mktemp("wires")
    (folder / "gguf").mkdir()
    (folder / "gguf" / "smol.gguf").symlink_to(starter_model)
    shutil.copy(starter_model, folder / "gguf" / "tooled.gguf")  # two links would be one model
    running = start_daemon(
        folder,
        'blocked_plugins = ["hello"]\n[plugins.llamacpp]\nengine = "embedded"\n'
        f"folders = {json.dumps([str(folder / 'gguf')])}\n"
        "threads = 1\nparallel = 2\ncontext = 1024\n"
        f'[models."{TOOLED}"]\nchat_template = {json.dumps(str(TEMPLATE))}\n',
    )
    yield running
    stop_daemon(running)
    shutil.rmtree(folder / "gguf")


@pytest.fixture
def gpt(daemon: DaemonProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{daemon.url}/v1", api_key=daemon.token, max_retries=0, timeout=120
    ) as client:
        yield client


@pytest.fixture
def claude(daemon: DaemonProcess) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=daemon.url, api_key=daemon.token, max_retries=0, timeout=120
    ) as client:
        yield client


@pytest.mark.wire("models", "the list", "one of them")
def test_models(gpt: openai.OpenAI) -> None:
    assert [model.id for model in gpt.models.list()] == [MODEL, TOOLED]
    assert gpt.models.retrieve(MODEL).id == MODEL


@pytest.mark.wire("chat", "whole", "a stream")
def test_chat(gpt: openai.OpenAI) -> None:
    whole = gpt.chat.completions.create(model=MODEL, messages=SAID, max_tokens=8)
    assert whole.choices[0].message.content
    assert whole.usage is not None
    assert whole.usage.completion_tokens > 0
    pieces = list(
        gpt.chat.completions.create(
            model=MODEL,
            messages=SAID,
            max_tokens=8,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert "".join(c.delta.content or "" for piece in pieces for c in piece.choices)
    assert pieces[-1].usage is not None


@pytest.mark.wire("chat", "a stop sequence")
def test_chat_stops(gpt: openai.OpenAI) -> None:
    free = gpt.chat.completions.create(model=MODEL, messages=COUNT, max_tokens=16, **STEADY)
    text = free.choices[0].message.content or ""
    stop = text.split()[1]
    held = gpt.chat.completions.create(
        model=MODEL, messages=COUNT, max_tokens=16, stop=[stop], **STEADY
    )
    assert held.choices[0].finish_reason == "stop"
    assert stop not in (held.choices[0].message.content or "")


@pytest.mark.wire("chat", "a tool call")
def test_a_tool_call_of_chat(gpt: openai.OpenAI) -> None:
    said: Any = []
    for town in TOWNS:
        made = {"name": "weather", "arguments": json.dumps({"town": town})}
        call_before = {"id": town, "type": "function", "function": made}
        said += [
            {"role": "user", "content": f"How is the weather in {town}?"},
            {"role": "assistant", "content": None, "tool_calls": [call_before]},
            {"role": "tool", "tool_call_id": town, "content": "Sunny"},
            {"role": "assistant", "content": "Sunny."},
        ]
    told = gpt.chat.completions.create(
        model=TOOLED,
        messages=said + ASKS_WEATHER,
        max_tokens=64,
        tools=[{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
        tool_choice="required",
        **STEADY,
    )
    [call] = told.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert set(json.loads(call.function.arguments)) == {"town"}
    assert told.choices[0].finish_reason == "tool_calls"


@pytest.mark.wire("chat", "JSON by a schema")
def test_a_schema_of_chat(gpt: openai.OpenAI) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "town", "schema": SCHEMA}}
    told = gpt.chat.completions.create(
        model=MODEL, messages=ASKS_WEATHER, max_tokens=64, response_format=form, **STEADY
    )
    assert set(json.loads(told.choices[0].message.content or "")) == {"town"}


@pytest.mark.wire("chat", "refusals in its words")
def test_a_refusal_of_chat(gpt: openai.OpenAI) -> None:
    long: Any = [{"role": "user", "content": "word " * 3000}]
    with pytest.raises(openai.BadRequestError, match="context"):
        gpt.chat.completions.create(model=MODEL, messages=long)


@pytest.mark.wire("completions", "whole", "a stream", "a stop sequence")
def test_completions(gpt: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "prompt": "One, two, three,", "max_tokens": 8, **STEADY}
    text = gpt.completions.create(**asked).choices[0].text
    assert text
    pieces = list(gpt.completions.create(**asked, stream=True))
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == text
    stop = text.split()[1]
    held = gpt.completions.create(**asked, stop=[stop])
    assert stop not in held.choices[0].text


@pytest.mark.wire("embeddings", "refused where there are none")
def test_embeddings_are_refused(gpt: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="makes no embeddings"):
        gpt.embeddings.create(model=MODEL, input="hi")


@pytest.mark.wire("rerank", "refused where it is not spoken")
def test_rerank_is_refused(daemon: DaemonProcess) -> None:
    body = {"model": MODEL, "query": "?", "documents": ["a"]}
    answer = httpx.post(f"{daemon.url}/v1/rerank", json=body, headers=daemon.headers, timeout=60)
    assert answer.status_code in (400, 404, 501)
    assert answer.json()["error"]["code"] == "wire_unsupported"


@pytest.mark.wire("messages", "whole", "a stream")
def test_messages(claude: anthropic.Anthropic) -> None:
    asked: Any = {"model": MODEL, "max_tokens": 8, "system": "Be brief.", "messages": SAID}
    whole = claude.messages.create(**asked)
    [block] = whole.content
    assert block.type == "text"
    assert block.text
    assert whole.usage.output_tokens > 0
    with claude.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream)
        final = stream.get_final_message()
    assert (final.model, final.usage.output_tokens > 0) == (MODEL, True)
    assert final.stop_reason in ("end_turn", "max_tokens")


@pytest.mark.wire("messages", "a stop sequence")
def test_messages_stop(claude: anthropic.Anthropic) -> None:
    asked: Any = {
        "model": MODEL,
        "max_tokens": 16,
        "messages": COUNT,
        "extra_body": {"temperature": 0},
    }
    [block] = claude.messages.create(**asked).content
    assert block.type == "text"
    stop = block.text.split()[1]
    held = claude.messages.create(**asked, stop_sequences=[stop])
    assert stop not in "".join(part.text for part in held.content if part.type == "text")


@pytest.mark.wire("messages", "a tool call")
def test_a_tool_call_of_messages(claude: anthropic.Anthropic) -> None:
    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    said: Any = []
    for town in TOWNS:
        use = {"type": "tool_use", "id": town, "name": "weather", "input": {"town": town}}
        result = {"type": "tool_result", "tool_use_id": town, "content": "Sunny"}
        said += [
            {"role": "user", "content": f"How is the weather in {town}?"},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "Sunny."},
        ]
    asked: Any = {"model": TOOLED, "max_tokens": 64, "messages": said + ASKS_WEATHER}
    more: Any = {"tools": tools, "tool_choice": {"type": "any"}, "extra_body": {"temperature": 0}}
    with claude.messages.stream(**asked, **more) as stream:
        final = stream.get_final_message()
    [block] = final.content
    assert block.type == "tool_use"
    assert (block.name, set(block.input)) == ("weather", {"town"})
    assert final.stop_reason == "tool_use"


@pytest.mark.wire("messages", "tokens counted")
def test_tokens_are_counted(claude: anthropic.Anthropic) -> None:
    assert claude.messages.count_tokens(model=MODEL, messages=SAID).input_tokens > 0


@pytest.mark.wire("messages", "refusals in its words")
def test_a_refusal_of_messages(claude: anthropic.Anthropic) -> None:
    long: Any = [{"role": "user", "content": "word " * 3000}]
    with pytest.raises(anthropic.BadRequestError, match="context"):
        claude.messages.create(model=MODEL, max_tokens=4, messages=long)


@pytest.mark.wire("responses", "whole", "a stream")
def test_responses(gpt: openai.OpenAI) -> None:
    whole = gpt.responses.create(model=MODEL, input="Say hello.", max_output_tokens=8)
    assert whole.output_text
    assert whole.usage is not None
    text = "".join(
        event.delta
        for event in gpt.responses.create(
            model=MODEL, input="Say hello.", max_output_tokens=8, stream=True
        )
        if event.type == "response.output_text.delta"
    )
    assert text


@pytest.mark.wire("responses", "a tool call")
def test_a_tool_call_of_responses(gpt: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}]
    said: Any = []
    for town in TOWNS:
        arguments = json.dumps({"town": town})
        said += [
            {"role": "user", "content": f"How is the weather in {town}?"},
            {"type": "function_call", "call_id": town, "name": "weather", "arguments": arguments},
            {"type": "function_call_output", "call_id": town, "output": "Sunny"},
            {"role": "assistant", "content": "Sunny."},
        ]
    told = gpt.responses.create(
        model=TOOLED, input=said + ASKS_WEATHER, tools=tools, tool_choice="required",
        max_output_tokens=64, temperature=0,
    )  # fmt: skip
    [item] = told.output
    assert item.type == "function_call"
    assert (item.name, set(json.loads(item.arguments))) == ("weather", {"town"})


@pytest.mark.wire("responses", "JSON by a schema")
def test_a_schema_of_responses(gpt: openai.OpenAI) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "town", "schema": SCHEMA}}
    told = gpt.responses.create(
        model=MODEL, input="Where is Bern?", text=text, max_output_tokens=64, temperature=0
    )
    assert set(json.loads(told.output_text)) == {"town"}


@pytest.mark.wire("responses", "refusals in its words")
def test_what_is_kept_nowhere_is_refused(gpt: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="not kept here"):
        gpt.responses.create(model=MODEL, input="hi", previous_response_id="resp_1")
