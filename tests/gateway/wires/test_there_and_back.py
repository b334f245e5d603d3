"""Chat → Messages → Chat by the two real translators: the meaning stays. Pure."""

import contextlib
import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.errors import BadRequest, Unsupported, UpstreamFailed
from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError
from cerberus_core.gateway.wires import chat_over_messages, messages_over_chat
from cerberus_core.gateway.wires.chat_stream import ChatStream
from cerberus_core.testing.scripted import DONE, chunk
from cerberus_core.testing.scripted import sse as event

OUTER = chat_over_messages.Asked(id="chatcmpl-1", model="m", created=1, wants_usage=True)
INNER = messages_over_chat.Asked(model="m", request_id="1")
PNG = "data:image/png;base64,iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}

words = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Z", "C")), min_size=1, max_size=12
)
"""Without blanks: at an answer's end they are cut off, as Messages wants it."""
names = st.sampled_from(["read", "write"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(words, json_values, max_size=2)


# Requests.


def contents() -> st.SearchStrategy[Any]:
    text = st.builds(lambda t: {"type": "text", "text": t}, words)
    image = st.builds(lambda: {"type": "image_url", "image_url": {"url": PNG}})
    return words | st.lists(text | image, min_size=1, max_size=3)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if draw(st.booleans()):
        out.append({"role": "system", "content": draw(words)})
    count = 0
    for _ in range(draw(st.integers(0, 3))):
        out.append({"role": "user", "content": draw(contents())})
        said: dict[str, Any] = {"role": "assistant", "content": draw(st.none() | words)}
        calls = []
        for _ in range(draw(st.integers(0 if said["content"] else 1, 3))):
            made = {"name": draw(names), "arguments": json.dumps(draw(arguments))}
            calls.append({"id": f"call_{count}", "type": "function", "function": made})
            count += 1
        if calls:
            said["tool_calls"] = calls
        out.append(said)
        for call in calls:
            result = {"role": "tool", "tool_call_id": call["id"], "content": draw(words)}
            out.append(result)
    out.append({"role": "user", "content": draw(contents())})
    return out


def meaning(messages: Iterable[dict[str, Any]]) -> list[Any]:
    """Who says what, neighbours of one role as one."""
    out: list[Any] = []
    for role, turn in groupby(messages, lambda m: m["role"]):
        texts, images, calls, results = "", 0, [], []
        for message in turn:
            content = message.get("content") or ""
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if role == "tool":
                results.append((message["tool_call_id"], content))
                continue
            texts += "".join(part["text"] for part in parts if part["type"] == "text")
            images += sum(part["type"] == "image_url" for part in parts)
            calls += [_call(call) for call in message.get("tool_calls") or []]
        out.append((role, texts.replace("\n\n", ""), images, calls, results))
    return out


def _call(call: dict[str, Any]) -> tuple[Any, ...]:
    function = call["function"]
    return call["id"], function["name"], json.loads(function["arguments"])


wishes = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0, 0.5, 1]),
        "top_p": st.sampled_from([0.1, 1]),
        "stop": st.lists(words, min_size=1, max_size=2),
        "user": words,
        "max_tokens": st.integers(1, 9000),
        "tool_choice": st.sampled_from(
            ["auto", "none", "required", {"type": "function", "function": {"name": "read"}}]
        ),
        "response_format": st.just(
            {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA,
                                                     "strict": True}}
        ),
    },
)  # fmt: skip
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": SCHEMA}}
    for name in ("read", "write")
]


@settings(max_examples=120, deadline=None)
@given(conversations(), wishes, st.booleans())
def test_a_request_means_the_same_after_both_translators(
    messages: list[dict[str, Any]], wishes: dict[str, Any], tools: bool
) -> None:
    asked = {"model": "m", "messages": messages, **wishes}
    if tools:
        asked["tools"] = TOOLS
    else:
        asked.pop("tool_choice", None)
    back = messages_over_chat.request(chat_over_messages.request(asked))
    assert meaning(back["messages"]) == meaning(messages)
    for wish in asked.keys() - {"messages"}:
        assert back[wish] == asked[wish], wish


# Answers.

deltas = st.lists(
    st.builds(lambda t: {"content": t}, words)
    | st.builds(lambda t: {"reasoning_content": t}, words),
    max_size=4,
)
made_calls = st.lists(st.tuples(names, arguments), max_size=3)
finishes = st.sampled_from(["stop", "length", "content_filter"])
usages = st.builds(
    lambda fresh, cached, out: {
        "prompt_tokens": fresh + cached,
        "completion_tokens": out,
        "total_tokens": fresh + cached + out,
        "prompt_tokens_details": {"cached_tokens": cached},
    },
    st.integers(0, 99), st.integers(0, 99), st.integers(1, 99),
)  # fmt: skip


def calls_of(made: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{index}", "type": "function",
         "function": {"name": name, "arguments": json.dumps(given)}}
        for index, (name, given) in enumerate(made)
    ]  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(st.none() | words, st.none() | words, made_calls, finishes, usages)
def test_a_whole_answer_means_the_same(
    text: str | None, thought: str | None, made: list[tuple[str, Any]], finish: str,
    usage: dict[str, Any],
) -> None:  # fmt: skip
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thought:
        message["reasoning_content"] = thought
    if made:
        message["tool_calls"] = calls_of(made)
        finish = "tool_calls" if finish == "stop" else finish
    choice = {"index": 0, "message": message, "finish_reason": finish}
    told = messages_over_chat.answer({"choices": [choice], "usage": usage}, INNER)
    back = chat_over_messages.answer(told, OUTER)
    [out] = back["choices"]
    assert out["finish_reason"] == finish
    assert (out["message"]["content"] or "") == (text or "")
    assert out["message"].get("reasoning_content") == (thought or None)
    assert [_call(c) for c in out["message"].get("tool_calls", [])] == [
        _call(c) for c in calls_of(made)
    ]
    assert {key: back["usage"][key] for key in usage} == usage


# Streams.


class _Both:
    """A chat stream told as Messages, and that as chat again, bytes by bytes."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.inner = messages_over_chat.MessagesOverChat(self.facts, INNER, now=lambda: 1.0)
        self.outer = ChatStream(Facts(), OUTER, now=lambda: 1.0)

    def feed(self, part: bytes) -> bytes:
        return self.outer.feed(self.inner.feed(part))

    def end(self) -> bytes:
        last = self.outer.feed(self.inner.tail({}))
        assert self.outer.finished
        return last + self.outer.tail({})


def streamed(
    said: list[dict[str, Any]], made: list[tuple[str, Any]], finish: str, usage: dict[str, Any]
) -> bytes:
    out = [event(chunk({"role": "assistant", "content": ""}))]
    out += [event(chunk(delta)) for delta in said]
    for index, call in enumerate(calls_of(made)):
        whole = call["function"]["arguments"]
        opened = {**call["function"], "arguments": whole[:3]}
        out.append(event(chunk({"tool_calls": [{**call, "index": index, "function": opened}]})))
        rest = {"index": index, "function": {"arguments": whole[3:]}}
        out.append(event(chunk({"tool_calls": [rest]})))
    out.append(event(chunk({}, finish=finish)))
    out.append(event({**chunk(), "choices": [], "usage": usage}))
    return b"".join([*out, DONE])


def told_by(out: bytes) -> dict[str, Any]:
    told: dict[str, Any] = {"text": "", "thought": "", "calls": {}, "finish": None, "usage": None}
    datas = [data for block in sse.blocks(out) if (data := sse.data_of(block))]
    assert datas[-1] == b"[DONE]"
    assert datas.count(b"[DONE]") == 1
    for value in map(json.loads, datas[:-1]):
        told["usage"] = value.get("usage") or told["usage"]
        for choice in value["choices"]:
            delta = choice["delta"]
            told["text"] += delta.get("content") or ""
            told["thought"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or []:
                known = told["calls"].setdefault(call["index"], {"arguments": ""})
                known["id"] = known.get("id") or call.get("id")
                known["name"] = known.get("name") or call["function"].get("name")
                known["arguments"] += call["function"].get("arguments") or ""
            told["finish"] = choice["finish_reason"] or told["finish"]
    return told


@settings(max_examples=80, deadline=None)
@given(deltas, made_calls, finishes, usages, st.lists(st.integers(0, 4000), max_size=6))
def test_a_stream_means_the_same_however_it_is_cut(
    said: list[dict[str, Any]], made: list[tuple[str, Any]], finish: str, usage: dict[str, Any],
    cuts: list[int],
) -> None:  # fmt: skip
    if made and finish == "stop":
        finish = "tool_calls"
    raw = streamed(said, made, finish, usage)
    whole = _Both()
    out = whole.feed(raw)
    expected = out + whole.end()
    places = sorted(min(cut, len(raw)) for cut in cuts)
    both, cut_up = _Both(), b""
    for a, b in zip([0, *places], [*places, len(raw)], strict=True):
        cut_up += both.feed(raw[a:b])
    assert told_by(cut_up + both.end()) == told_by(expected)
    told = told_by(expected)
    assert told["text"] == "".join(d.get("content", "") for d in said)
    assert told["thought"] == "".join(d.get("reasoning_content", "") for d in said)
    assert told["finish"] == finish
    calls = [
        (call["id"], call["name"], json.loads(call["arguments"]))
        for _, call in sorted(told["calls"].items())
    ]
    assert calls == [_call(call) for call in calls_of(made)]
    assert {key: told["usage"][key] for key in usage} == usage
    assert (whole.facts.prompt_tokens, whole.facts.completion_tokens) == (
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )


# Whatever comes.

KEYS = ["model", "messages", "role", "content", "type", "text", "tool_calls", "function", "name",
        "arguments", "tools", "tool_choice", "id", "tool_call_id", "stop", "response_format",
        "choices", "message", "delta", "finish_reason", "usage", "index", "image_url"]  # fmt: skip
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    | st.sampled_from(["user", "assistant", "tool", "system", "text", "function"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=14,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), junk, max_size=5), st.lists(junk, max_size=3))
def test_nothing_but_typed_errors_comes_of_any_request(fields: Any, messages: list[Any]) -> None:
    for asked in (fields, {**fields, "model": "m", "messages": messages}):
        with contextlib.suppress(BadRequest, Unsupported):
            messages_over_chat.request(chat_over_messages.request(asked))


@settings(max_examples=150, deadline=None)
@given(junk, st.lists(junk | st.builds(lambda j: {"choices": [{"delta": j}]}, junk), max_size=3))
def test_nothing_but_typed_errors_comes_of_any_answer(whole: Any, events: list[Any]) -> None:
    body = {"choices": [{"message": whole}]}
    with contextlib.suppress(UpstreamFailed):
        chat_over_messages.answer(messages_over_chat.answer(body, INNER), OUTER)
    both = _Both()
    try:
        for value in events:
            both.feed(event(value))
        both.outer.feed(both.inner.tail({}))
    except UpstreamError:
        pass
