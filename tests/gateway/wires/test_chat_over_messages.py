"""Chat Completions from a backend that speaks Messages: there and back. Pure."""

import copy
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from cerberus_core.errors import BadRequest, Unsupported, UpstreamFailed
from cerberus_core.gateway.assemble import Assembler
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError
from cerberus_core.gateway.wires import responses_over_messages
from cerberus_core.gateway.wires.chat_over_messages import (
    DEFAULT_MAX_TOKENS,
    Asked,
    answer,
    request,
)
from cerberus_core.gateway.wires.chat_stream import ChatStream
from cerberus_core.gateway.wires.responses import Asked as ResponsesAsked

PNG = "data:image/png;base64,iVBORw0KGgo="
PNG_BLOCK = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


def ask(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    given = list(messages) or [said("user", "hi")]
    return {"model": "m", "messages": given, **fields}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


FULL: dict[str, Any] = ask(
    said("system", "Be brief."),
    said("user", [text("look"), {"type": "image_url", "image_url": {"url": PNG}}]),
    said("developer", [text("Now."), text("")]),
    said(
        "assistant",
        None,
        tool_calls=[call("call.1:0", "read", '{"p": 1}'), call("b", "ls", "")],
        thinking_blocks=[{"type": "thinking", "thinking": "hm", "signature": "s"}],
    ),
    said("tool", "one", tool_call_id="call.1:0"),
    said("tool", [text("two"), {"type": "image_url", "image_url": {"url": PNG}}], tool_call_id="b"),
    said("user", "and?", name="ann"),
    tools=[function("read", parameters={"properties": {}}, description="Reads."), function("ls")],
    tool_choice="auto",
    parallel_tool_calls=False,
    max_completion_tokens=9000,
    temperature=1.5,
    top_p=0.9,
    stop="END",
    stream=True,
    stream_options={"include_usage": True},
    reasoning_effort="low",
    response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"a": 1}}},
    user="u1",
    seed=4,
    presence_penalty=1,
    logit_bias={"1": 2},
    top_k=5,
    made_up=True,
)


def test_a_whole_conversation_means_the_same() -> None:
    before = copy.deepcopy(FULL)
    out = request(FULL)
    assert before == FULL
    assert out.pop("messages") == [
        {"role": "user", "content": [text("look"), PNG_BLOCK]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "call_1_0", "name": "read", "input": {"p": 1}},
                {"type": "tool_use", "id": "b", "name": "ls", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1_0", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": [text("two"), PNG_BLOCK]},
                text("and?"),
            ],
        },
    ]
    assert out == {
        "model": "m",
        "system": "Be brief.\n\nNow.",
        "stream": True,
        "max_tokens": 9000,
        "stop_sequences": ["END"],
        "tools": [
            {
                "name": "read",
                "description": "Reads.",
                "input_schema": {"type": "object", "properties": {}},
            },
            {"name": "ls", "input_schema": {"type": "object", "properties": {}}},
        ],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "output_config": {"format": {"type": "json_schema", "schema": {"a": 1}}},
        "metadata": {"user_id": "u1"},
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"temperature": 1.5, "top_p": 0.9}, {"temperature": 1, "top_p": 0.9}),
        ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
        ({"tools": [], "tool_choice": "required", "parallel_tool_calls": False}, {}),
        ({"n": 1, "logprobs": False, "stream": False}, {"stream": False}),
        ({"response_format": {"type": "text"}, "reasoning_effort": "none"}, {}),
        ({"reasoning_effort": "high", "max_tokens": 1500}, {"max_tokens": 1500}),
        (
            {"reasoning_effort": "high", "temperature": 0.2},
            {
                "thinking": {"type": "enabled", "budget_tokens": 16384},
                "max_tokens": DEFAULT_MAX_TOKENS + 16384,
            },
        ),
        (
            {"response_format": {"type": "json_object"}},
            {"system": "Answer with one JSON object and nothing else."},
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 3},
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 3},
        ),
    ],
)
def test_wishes(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    hello = [{"role": "user", "content": [text("hi")]}]
    defaults = {"model": "m", "messages": hello, "max_tokens": DEFAULT_MAX_TOKENS}
    assert request(ask(**fields)) == {**defaults, **expected}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", {"type": "none"}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        (function("a"), {"type": "tool", "name": "a", "disable_parallel_tool_use": True}),
        (None, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [function("a")]}},
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_tool_choice(choice: Any, expected: dict[str, Any]) -> None:
    tools = [function("a"), function("b")]
    out = request(ask(tools=tools, tool_choice=choice, parallel_tool_calls=False))
    assert out["tool_choice"] == expected
    names = ["a"] if isinstance(choice, dict) and "allowed_tools" in choice else ["a", "b"]
    assert [tool["name"] for tool in out["tools"]] == names


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [function("a")], "tool_choice": "required"},
        {
            "messages": [
                said("user", "x"),
                said("assistant", None, tool_calls=[call("a", "b", "{}")]),
                said("tool", "y", tool_call_id="a"),
            ]
        },
    ],
)
def test_there_is_no_thinking_where_messages_refuses_it(fields: dict[str, Any]) -> None:
    assert "thinking" not in request(ask(reasoning_effort="high", **fields))


def test_g26_images_and_texts_of_a_result_stay_in_it() -> None:
    content = request(FULL)["messages"][2]["content"]
    assert content[0]["content"] == "one"
    assert content[1]["content"][1] == PNG_BLOCK


def test_g27_an_assistant_without_text_is_its_calls_alone() -> None:
    for content in (None, "", []):
        history = said("assistant", content, tool_calls=[call("a", "b", "{}")])
        turn = request(ask(said("user", "x"), history))["messages"][1]
        assert [block["type"] for block in turn["content"]] == ["tool_use"]


def test_g31_system_messages_anywhere_become_one_system_in_order() -> None:
    mark = {"type": "ephemeral"}
    out = request(
        ask(
            said("system", [{**text("one"), "cache_control": mark}]),
            said("user", "x"),
            said("system", "two"),
            said("user", "y"),
        )
    )
    assert out["system"] == [{**text("one"), "cache_control": mark}, text("two")]
    assert out["messages"] == [{"role": "user", "content": [text("x"), text("y")]}]


def test_results_stand_first_in_their_turn_and_say_when_they_are_empty() -> None:
    out = request(
        ask(
            said("user", "x"),
            said("assistant", "", tool_calls=[call("a", "b", "{}")]),
            said("user", "wait"),
            said("tool", "", tool_call_id="a"),
        )
    )
    result = {"type": "tool_result", "tool_use_id": "a", "content": "(no output)"}
    assert out["messages"][2]["content"] == [result, text("wait")]


def test_a_conversation_of_system_alone_is_asked_all_the_same() -> None:
    out = request(ask(said("system", "Write a poem.")))
    assert out["messages"] == [{"role": "user", "content": [text("Write a poem.")]}]
    assert "system" not in out


def test_a_begun_answer_ends_without_blanks() -> None:
    out = request(ask(said("user", "x"), said("assistant", "{ \n")))
    assert out["messages"][1]["content"] == [text("{")]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("", {}),
        (None, {}),
        ("null", {}),
        ('{"a":1}', {"a": 1}),
        ('{"a', {"arguments": '{"a'}),
        ("[1]", {"arguments": "[1]"}),
    ],
)
def test_arguments_are_always_an_object(written: Any, sent: Any) -> None:
    history = said("assistant", None, tool_calls=[call("a", "b", written)])
    assert request(ask(said("user", "x"), history))["messages"][1]["content"][0]["input"] == sent


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"logprobs": True},
        {"modalities": ["text", "audio"]},
        {"functions": [{"name": "a"}]},
        {"web_search_options": {}},
        {"tools": [{"type": "custom", "custom": {"name": "a"}}]},
        {"messages": [said("user", [{"type": "input_audio", "input_audio": {}}])]},
        {"messages": [said("user", [{"type": "file", "file": {"file_id": "f"}}])]},
    ],
)
def test_what_messages_cant_do_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        request(ask(**fields))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"messages": None}, "`messages`"),
        ({"messages": "hi"}, "`messages`"),
        ({"messages": []}, "`messages` is empty"),
        ({"messages": [said("user", "")]}, "`messages` holds no text"),
        ({"messages": [3]}, "`messages[0]`"),
        ({"messages": [said("robot", "x")]}, "`messages[0].role`"),
        ({"messages": [said("user", [{"type": "x"}])]}, "`messages[0].content[0].type`"),
        ({"messages": [said("user", 3)]}, "`messages[0].content`"),
        ({"messages": [said("tool", "x")]}, "`messages[0].tool_call_id`"),
        (
            {"messages": [said("system", [{"type": "image_url", "image_url": {"url": PNG}}])]},
            "`messages[0].content`",
        ),
        (
            {"messages": [said("user", [{"type": "image_url", "image_url": {"url": "ftp://x"}}])]},
            "`messages[0].content[0].image_url.url`",
        ),
        ({"max_tokens": 0}, "`max_tokens`"),
        ({"stop": [1]}, "`stop[0]`"),
        ({"tools": [function("")]}, "`tools[0].function.name`"),
        ({"tools": [function("a")], "tool_choice": "maybe"}, "`tool_choice`"),
        ({"response_format": {"type": "xml"}}, "`response_format.type`"),
    ],
)
def test_g30_a_mistake_is_told_with_its_place(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequest) as caught:
        request(ask(**fields))
    assert word in caught.value.message


# Whole answers.

ASKED = Asked(id="chatcmpl-1", model="pub", created=5, wants_usage=True)
USAGE = {"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 4}
ANSWER: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm é", "signature": "sig"},
        {"type": "text", "text": "北京 "},
        {"type": "text", "text": 'a\u2028"b'},
        {"type": "tool_use", "id": "t1", "name": "read", "input": {"p": "é"}},
        {"type": "tool_use", "id": "t2", "name": "ls", "input": {}},
    ],
    "stop_reason": "tool_use",
    "usage": USAGE,
}


def test_a_whole_answer() -> None:
    out = answer(ANSWER, ASKED)
    ChatCompletion.model_validate(out)
    message = out["choices"][0]["message"]
    assert message["content"] == '北京 a\u2028"b'
    assert message["reasoning_content"] == "hm é"
    assert message["thinking_blocks"] == [ANSWER["content"][0]]
    assert message["tool_calls"] == [
        call("t1", "read", '{"p":"é"}'),
        call("t2", "ls", "{}"),
    ]
    assert out["choices"][0]["finish_reason"] == "tool_calls"
    assert out["usage"] == {
        "prompt_tokens": 8,
        "completion_tokens": 4,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 3},
    }


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
        (None, "stop"),
        ("brand_new", "stop"),
    ],
)
def test_stop_reasons(reason: Any, expected: str) -> None:
    out = answer({"content": [text("x")], "stop_reason": reason}, ASKED)
    assert out["choices"][0]["finish_reason"] == expected


@pytest.mark.parametrize("body", [{}, {"content": "x"}])
def test_an_answer_without_content_is_the_endpoints_failure(body: Any) -> None:
    with pytest.raises(UpstreamFailed):
        answer(body, ASKED)


# Streams.


def event(type: str, **fields: Any) -> bytes:
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n".encode()


def start(index: int, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, type: str, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": type, **fields})


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


def end(reason: str, **usage: Any) -> bytes:
    last = event("message_delta", delta={"stop_reason": reason}, usage=usage)
    return last + event("message_stop")


BEGIN = event("message_start", message={"role": "assistant", "content": [], "usage": USAGE})
STREAM = b"".join(
    [
        BEGIN,
        start(0, type="thinking", thinking=""),
        event("ping"),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "thinking_delta", thinking=" é"),
        delta(0, "signature_delta", signature="sig"),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "text_delta", text="北京 "),
        delta(1, "text_delta", text='a\u2028"b'),
        stop(1),
        start(2, type="tool_use", id="t1", name="read", input={}),
        delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"p":'),
        delta(2, "input_json_delta", partial_json='"é"}'),
        stop(2),
        start(3, type="tool_use", id="t2", name="ls", input={}),
        stop(3),
        end("tool_use", output_tokens=4, input_tokens=0),
    ]
)


def stream(facts: Facts | None = None, asked: Asked = ASKED) -> ChatStream:
    times = itertools.count(1)
    return ChatStream(facts or Facts(), asked, now=lambda: float(next(times)))


def told(*parts: bytes, reader: Any = None) -> bytes:
    reader = reader or stream()
    out = []
    for part in parts:
        quick = reader.quick(part)
        if quick is None:
            out.append(reader.feed(part))
        else:
            out.append(quick)
            reader.passed()
    assert reader.finished
    return b"".join(out) + bytes(reader.tail({"x": 1}))


def chunks_of(data: bytes) -> list[dict[str, Any]]:
    blocks = [block for block in data.decode().split("\n\n") if block and block[0] != ":"]
    assert blocks[-1] == "data: [DONE]"
    assert blocks.count("data: [DONE]") == 1
    chunks = [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]
    for chunk in chunks:
        if chunk["choices"]:
            ChatCompletionChunk.model_validate(chunk)
    return chunks


def put_together(data: bytes) -> dict[str, Any]:
    assembler = Assembler(Facts(), now=lambda: 0.0)
    assembler.feed(data)
    assert assembler.done
    assert assembler.complete
    whole: dict[str, Any] = json.loads(assembler.answer())
    return whole


def test_a_stream_adds_up_to_the_whole_answer() -> None:
    facts = Facts()
    data = told(STREAM, reader=stream(facts))
    whole, expected = put_together(data), answer(ANSWER, ASKED)
    assert whole["usage"].pop("cerberus") == {"x": 1}
    expected["choices"][0]["logprobs"] = None
    assert whole == expected
    assert (facts.prompt_tokens, facts.completion_tokens, facts.cached_tokens) == (8, 4, 3)
    assert (facts.first_at, facts.pieces) == (1.0, 8)


def test_g04_g08_one_usage_chunk_where_asked_for_and_one_done() -> None:
    chunks = chunks_of(told(STREAM))
    assert [chunk["choices"] == [] for chunk in chunks].count(True) == 1
    assert chunks[-1]["usage"]["total_tokens"] == 12
    quiet = Asked(id="c", model="m", created=1)
    data = told(STREAM, reader=stream(asked=quiet))
    assert all("usage" not in chunk for chunk in chunks_of(data))


def test_g11_arguments_that_come_whole_at_the_blocks_start_are_told() -> None:
    begun = start(0, type="tool_use", id="t", name="read", input={"p": 1})
    whole = put_together(told(BEGIN + begun + stop(0) + end("tool_use")))
    assert whole["choices"][0]["message"]["tool_calls"] == [call("t", "read", '{"p":1}')]


def test_g14_a_call_that_is_cut_off_ends_with_length() -> None:
    half = start(0, type="tool_use", id="t", name="read", input={})
    half += delta(0, "input_json_delta", partial_json='{"p":')
    whole = put_together(told(BEGIN + half + stop(0) + end("max_tokens")))
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"p":'


def test_g05_a_stream_that_stops_in_a_call_is_not_finished() -> None:
    reader = stream()
    reader.feed(BEGIN + start(0, type="tool_use", id="t", name="read", input={}))
    reader.feed(delta(0, "input_json_delta", partial_json='{"p":'))
    assert not reader.finished


def test_g06_an_error_in_the_stream_is_raised_after_what_came_before() -> None:
    reader = stream()
    reader.feed(BEGIN)
    error = {"type": "overloaded_error", "message": "Overloaded"}
    with pytest.raises(UpstreamError) as caught:
        reader.feed(delta(0, "text_delta", text="a") + event("error", error=error))
    assert json.loads(caught.value.payload) == error
    assert b'"content":"a"' in reader.before_error


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=6), st.booleans())
def test_g01_g03_any_cut_gives_the_same_chunks(cuts: list[int], crlf: bool) -> None:
    data = STREAM.replace(b"\n", b"\r\n") if crlf else STREAM
    parts = [data[a:b] for a, b in itertools.pairwise([0, *sorted(cuts), len(data)])]
    assert told(*parts) == told(STREAM)


def test_the_fast_path_tells_what_the_slow_one_tells() -> None:
    begun, pieces = [BEGIN, start(0, type="text", text="")], []
    for piece in ("a", "é\n", '"'):
        pieces.append(delta(0, "text_delta", text=piece))
    rest = [stop(0) + end("end_turn", output_tokens=3)]
    facts = Facts()
    data = told(*begun, *pieces, *rest, reader=stream(facts))
    assert data == told(b"".join([*begun, *pieces, *rest]))
    assert facts.pieces == 3


# By way of chat: Responses over Messages.


def test_responses_over_messages() -> None:
    fields: dict[str, Any] = {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "x"},
            {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "y"},
        ],
        "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
        "prompt_cache_key": "k",
        "stream": True,
    }
    out = responses_over_messages.request(fields)
    assert set(out) == {"model", "messages", "stream", "max_tokens", "system", "tools"}
    assert [turn["role"] for turn in out["messages"]] == ["user", "assistant", "user"]
    asked = ResponsesAsked.of(fields, id="resp_1", model="pub", created_at=5)
    facts = Facts()
    reader = responses_over_messages.ResponsesOverMessagesStream(facts, asked, now=lambda: 1.0)
    blocks = [STREAM[: STREAM.index(b"event: content_block_stop")]]
    blocks += [part + b"\n\n" for part in STREAM[len(blocks[0]) :].split(b"\n\n") if part]
    data = told(*blocks, reader=reader).decode()
    last = json.loads(data.strip().rpartition("data: ")[2])
    Response.model_validate(last["response"])
    whole = responses_over_messages.answer(ANSWER, asked)
    assert last["type"] == "response.completed"
    assert last["response"]["usage"].pop("cerberus") == {"x": 1}
    plain = json.loads(json.dumps(whole, default=lambda raw: json.loads(bytes(raw))))
    assert last["response"] == plain
    assert facts.completion_tokens == 4
    reader = responses_over_messages.ResponsesOverMessagesStream(facts, asked, now=lambda: 1.0)
    broken = BEGIN + delta(0, "text_delta", text="a") + event("error", error={})
    with pytest.raises(UpstreamError):
        reader.feed(broken)
    assert b'"delta":"a"' in reader.before_error


# Properties.


def back(out: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages read as a chat conversation: the tests' own reader."""
    system = out.get("system", [])
    texts = [system] if isinstance(system, str) else [block["text"] for block in system]
    messages: list[dict[str, Any]] = [{"system": "\n\n".join(texts)}] if texts else []
    for turn in out["messages"]:
        for block in turn["content"]:
            if block["type"] == "tool_result":
                content = block["content"]
                messages.append({"result": block["tool_use_id"], "content": content})
            elif block["type"] == "tool_use":
                messages.append({"call": block["id"], block["name"]: block["input"]})
            else:
                messages.append({turn["role"]: block["text"]})
    return messages


words = st.text(alphabet="ab é😀\u2028", min_size=1, max_size=5).filter(str.strip)
turn_of = st.one_of(
    st.tuples(st.just("user"), words),
    st.tuples(st.just("system"), words),
    st.tuples(st.just("assistant"), words),
    st.tuples(st.just("call"), st.dictionaries(words, st.integers(0, 9), max_size=2)),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(turn_of, max_size=6))
def test_a_conversation_keeps_its_meaning(script: list[tuple[str, Any]]) -> None:
    messages: list[dict[str, Any]] = [said("user", "begin")]
    expected: list[dict[str, Any]] = [{"user": "begin"}]
    systems = []
    for number, (role, value) in enumerate(script):
        if role == "call":
            id = f"c{number}"
            messages.append(said("assistant", None, tool_calls=[call(id, "f", json.dumps(value))]))
            messages.append(said("tool", "r", tool_call_id=id))
            expected += [{"call": id, "f": value}, {"result": id, "content": "r"}]
        else:
            messages.append(said(role, value))
            if role == "system":
                systems.append(value)
            else:
                expected.append({role: value})
    messages.append(said("user", "end"))
    expected.append({"user": "end"})
    if systems:
        expected.insert(0, {"system": "\n\n".join(systems)})
    out = request(ask(*messages))
    assert back(out) == expected
    roles = [turn["role"] for turn in out["messages"]]
    assert all(a != b for a, b in itertools.pairwise(roles))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    )
    for key in list(keys):
        yield value, key
        yield from places(value[key])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_nothing_but_a_typed_error_comes_of_a_request(data: st.DataObject) -> None:
    fields = copy.deepcopy(FULL)
    holder, key = data.draw(st.sampled_from(list(places(fields))))
    holder[key] = data.draw(json_values)
    before = repr(fields)
    try:
        out = request(fields)
    except (BadRequest, Unsupported):
        return
    finally:
        assert repr(fields) == before
    json.dumps(out)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_nothing_but_a_typed_error_comes_of_a_whole_answer(data: st.DataObject) -> None:
    body = copy.deepcopy(ANSWER)
    holder, key = data.draw(st.sampled_from(list(places(body))))
    holder[key] = data.draw(json_values)
    try:
        json.dumps(answer(body, ASKED))
    except UpstreamFailed:
        return


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nothing_but_a_typed_error_comes_of_a_stream(data: st.DataObject) -> None:
    events = [json.loads(part.partition(b"data: ")[2]) for part in STREAM.split(b"\n\n") if part]
    holder, key = data.draw(st.sampled_from(list(places(events))))
    holder[key] = data.draw(json_values)
    noise = data.draw(st.binary(max_size=20))
    reader = stream()
    try:
        for each in events:
            reader.feed(b"data: " + json.dumps(each).encode() + b"\n\n")
        reader.feed(b"data: " + noise + b"\n\n" + end("end_turn"))
    except UpstreamError:
        return
    assert reader.tail({}).endswith(b"[DONE]\n\n")
