"""Chat streams turned into Messages events, and those read as a client reads them."""

import json
from collections.abc import Iterable
from typing import Any

from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.wires.messages_over_chat import Asked, MessagesOverChat
from cerberus_core.testing.scripted import DONE, USAGE, chunk
from cerberus_core.testing.scripted import sse as event

ASKED = Asked(model="up/m", request_id="r1")
EXTRA = {"request_id": "r1"}


def events_of(out: bytes) -> list[dict[str, Any]]:
    """The events, each under the name that its data has."""
    found = []
    for block in sse.blocks(out):
        name, _, rest = block.partition(b"\n")
        data = sse.data_of(rest)
        assert data is not None
        value = json.loads(data)
        assert name == b"event: " + value["type"].encode()
        found.append(value)
    return found


def translated(parts: Iterable[bytes], asked: Asked = ASKED) -> tuple[list[dict[str, Any]], Facts]:
    """The events of a good answer, its end included."""
    facts = Facts()
    stream = MessagesOverChat(facts, asked, now=lambda: 1.0)
    out = b""
    for part in parts:
        quick = stream.quick(part)
        if quick is None:
            out += stream.feed(part)
        else:
            stream.passed()
            out += quick
    assert stream.finished
    return events_of(out + stream.tail(EXTRA)), facts


def message_of(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of the events. Fails where their order is wrong."""
    assert [e["type"] for e in events].count("message_start") == 1
    assert events[0]["type"] == "message_start"
    assert [e["type"] for e in events[-2:]] == ["message_delta", "message_stop"]
    message: dict[str, Any] = dict(events[0]["message"])
    blocks: list[dict[str, Any]] = []
    open_blocks: dict[int, str] = {}
    for told in events[1:-2]:
        kind = told["type"]
        if kind == "ping":
            continue
        if kind == "content_block_start":
            assert told["index"] == len(blocks)
            blocks.append(dict(told["content_block"]))
            open_blocks[told["index"]] = ""
            continue
        block = blocks[told["index"]]
        assert told["index"] in open_blocks, "a delta after the block's stop"
        if kind == "content_block_stop":
            arguments = open_blocks.pop(told["index"])
            if block["type"] == "tool_use":
                block["input"] = arguments
            continue
        delta = told["delta"]
        if delta["type"] == "text_delta":
            block["text"] += delta["text"]
        elif delta["type"] == "thinking_delta":
            block["thinking"] += delta["thinking"]
        else:
            assert delta["type"] == "input_json_delta"
            open_blocks[told["index"]] += delta["partial_json"]
    assert not open_blocks, "a block without a stop"
    last = events[-2]
    return {**message, **last["delta"], "content": blocks, "usage": last["usage"]}


def chat_stream(
    *deltas: dict[str, Any], finish: str = "stop", usage: dict[str, Any] | None = USAGE
) -> list[bytes]:
    """A good streamed chat answer made of these deltas."""
    events = [event(chunk({"role": "assistant", "content": None}))]
    events += [event(chunk(delta)) for delta in deltas]
    events.append(event(chunk(finish=finish)))
    if usage is not None:
        events.append(event({**chunk(), "choices": [], "usage": usage}))
    return [*events, DONE]


def call(
    arguments: Any, *, name: str | None = None, id: str | None = None, index: int | None = 0
) -> dict[str, Any]:
    """A delta with a piece of a tool call; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    piece: dict[str, Any] = {
        "index": index,
        "id": id,
        "type": "function",
        "function": {key: value for key, value in function.items() if value is not None},
    }
    return {"tool_calls": [{key: value for key, value in piece.items() if value is not None}]}
