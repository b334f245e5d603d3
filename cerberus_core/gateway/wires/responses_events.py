"""The events of a Responses stream, and the response that they add up to. Pure.

Texts come as JSON strings, quotes and escapes included, and go out as those very
bytes: a token is neither decoded nor encoded.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
from msgspec import Raw

from cerberus_core.errors import CerberusError
from cerberus_core.gateway.stream import UpstreamError

from . import arguments
from .chat_events import json_of
from .check import as_json
from .responses import Asked, failure_of
from .responses_tools import Origin

MAX_ITEMS = 4096
"""Items of one answer."""
MAX_SIZE = 64 << 20
"""Bytes of one answer; all of it is told once more at the end."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode


@attrs.frozen
class Kind:
    """A kind of text: the events that carry it, and the item that it stands in."""

    prefix: str
    item: str
    part: str
    field: str
    events: str
    part_events: str
    index: str
    place: str
    """The member of the item that holds the part."""


_TEXT = Kind(
    *("msg", "message", "output_text", "text"),
    *("response.output_text", "response.content_part", "content_index", "content"),
)
_REFUSAL = Kind(
    *("msg", "message", "refusal", "refusal"),
    *("response.refusal", "response.content_part", "content_index", "content"),
)
_THOUGHTS = Kind(
    *("rs", "reasoning", "reasoning_text", "text"),
    *("response.reasoning_text", "response.content_part", "content_index", "content"),
)
_SUMMARY = Kind(
    *("rs", "reasoning", "summary_text", "text", "response.reasoning_summary_text"),
    *("response.reasoning_summary_part", "summary_index", "summary"),
)


class _Open:
    """An item that is being told; `head` and `tail` go around each of its deltas."""

    __slots__ = ("head", "id", "index", "kind", "logprobs", "pieces", "tail")

    def __init__(self, kind: Kind, id: str, index: int) -> None:
        self.kind = kind
        self.id = id
        self.index = index
        self.pieces: list[bytes] = []
        self.logprobs: list[Any] = []
        event = f"{kind.events}.delta"
        self.head = (
            f'event: {event}\ndata: {{"type":"{event}","item_id":{as_json(id)},'
            f'"output_index":{index},"{kind.index}":0,"delta":'
        ).encode()
        self.tail = b',"logprobs":[],"sequence_number":' if kind is _TEXT else _SEQUENCE

    def text(self) -> Raw:
        return Raw(b'"' + b"".join(self.pieces) + b'"')

    def part(self, text: Raw, logprobs: list[Any]) -> dict[str, Any]:
        part: dict[str, Any] = {"type": self.kind.part, self.kind.field: text}
        if self.kind is _TEXT:
            part.update(annotations=[], logprobs=logprobs)
        return part

    def item(self, status: str, *parts: dict[str, Any]) -> dict[str, Any]:
        item: dict[str, Any] = {"id": self.id, "type": self.kind.item}
        if self.kind.item == "message":
            return {**item, "status": status, "role": "assistant", "content": list(parts)}
        return {**item, "summary": [], self.kind.place: list(parts)}


_SEQUENCE = b',"sequence_number":'


class _Call:
    """A tool call that is being told."""

    __slots__ = ("call_id", "head", "id", "index", "name", "origin", "pieces")

    def __init__(self) -> None:
        self.index = -1
        """Its place in the output; -1 until its name is known."""
        self.id = ""
        self.call_id = ""
        self.name = ""
        self.origin: Origin | None = None
        self.pieces: list[bytes] = []
        self.head = b""

    def arguments(self) -> str:
        """What the model wrote; {} for nothing."""
        raw = b'"' + b"".join(self.pieces) + b'"'
        try:
            text = _decode_text(raw)
        except msgspec.MsgspecError:
            text = raw[1:-1].decode(errors="replace")
        return text if text.strip() else "{}"


class Writer:
    """Everything that is told returns the events for it; `response` is the whole."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._sequence = 0
        self._begun = False
        self._count = 0
        self._size = 0
        self._open: _Open | None = None
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._output: dict[int, dict[str, Any]] = {}
        self._status = "completed"
        self._incomplete: dict[str, str] | None = None
        self._finished = False

    # Text.

    def text(self, raw: bytes, logprobs: Mapping[str, Any] | None = None) -> bytes:
        if logprobs is None:
            return self._say(_TEXT, raw)
        before = b"" if self._open is not None and self._open.kind is _TEXT else self._start(_TEXT)
        assert self._open is not None
        told, kept = _logprobs_of(logprobs)
        self._keep(self._open.pieces, raw)
        self._open.logprobs += kept
        return before + self._event(
            "response.output_text.delta",
            item_id=self._open.id,
            output_index=self._open.index,
            content_index=0,
            delta=Raw(raw),
            logprobs=told,
        )

    def refusal(self, raw: bytes) -> bytes:
        return self._say(_REFUSAL, raw)

    def reasoning(self, raw: bytes) -> bytes:
        return self._say(_SUMMARY if self._asked.summary else _THOUGHTS, raw)

    def peek(self, raws: list[bytes]) -> bytes | None:
        """The events of text that goes on as it did; None if there is more to it.

        Nothing is changed before `took`.
        """
        item = self._open
        if item is None or item.kind is not _TEXT or self._size > MAX_SIZE:
            return None
        head, tail, number = item.head, item.tail, self._sequence
        if len(raws) == 1:
            return head + raws[0] + tail + b"%d}\n\n" % number
        return b"".join(
            [head + raw + tail + b"%d}\n\n" % n for n, raw in enumerate(raws, start=number)]
        )

    def took(self, raws: list[bytes]) -> None:
        """What `peek` gave was sent."""
        assert self._open is not None
        for raw in raws:
            self._open.pieces.append(raw[1:-1])
            self._size += len(raw)
        self._sequence += len(raws)

    def _say(self, kind: Kind, raw: bytes) -> bytes:
        before = b"" if self._open is not None and self._open.kind is kind else self._start(kind)
        item = self._open
        assert item is not None
        self._keep(item.pieces, raw)
        out = before + item.head + raw + item.tail + b"%d}\n\n" % self._sequence
        self._sequence += 1
        return out

    def _start(self, kind: Kind) -> bytes:
        out = [self.begin(), self._close_text("completed")]
        index = self._next_index()
        item = self._open = _Open(kind, self._asked.item_id(kind.prefix, index), index)
        out.append(self._added(index, item.item("in_progress")))
        out.append(self._part_event("added", item, item.part(Raw(b'""'), [])))
        return b"".join(out)

    def _close_text(self, status: str) -> bytes:
        item, self._open = self._open, None
        if item is None:
            return b""
        text = item.text()
        part = item.part(text, item.logprobs)
        whole = self._output[item.index] = item.item(status, part)
        more = {"logprobs": item.logprobs} if item.kind is _TEXT else {}
        done = self._event(
            f"{item.kind.events}.done",
            item_id=item.id,
            output_index=item.index,
            **{item.kind.index: 0, item.kind.field: text},
            **more,
        )
        return done + self._part_event("done", item, part) + self._done(item.index, whole)

    def _part_event(self, what: str, item: _Open, part: dict[str, Any]) -> bytes:
        return self._event(
            f"{item.kind.part_events}.{what}",
            item_id=item.id,
            output_index=item.index,
            **{item.kind.index: 0},
            part=part,
        )

    # Calls.

    def call_delta(self, delta: Mapping[str, Any]) -> bytes:
        """A piece of a tool call as Chat Completions tells it.

        Engines leave out the index, tell the same one for all calls, or tell id
        and name with every piece; `whole` is set for one that is no piece.
        """
        call = self._call_of(delta)
        function = delta.get("function")
        function = function if isinstance(function, Mapping) else {}
        out = [self.begin(), self._close_text("completed")]
        name = function.get("name")
        if call.index < 0 and isinstance(name, str) and name:
            out.append(self._announce(call, name))
        told = function.get("arguments")
        if told is not None and not isinstance(told, str):
            told = json_of(told).decode()
        if told:
            raw = as_json(told).encode()
            self._keep(call.pieces, raw)
            if call.head:
                out.append(self._argument_delta(call, raw))
        return b"".join(out)

    def _call_of(self, delta: Mapping[str, Any]) -> _Call:
        index, id = delta.get("index"), delta.get("id")
        id = id if isinstance(id, str) else ""
        call = None
        if delta.get("whole"):
            pass
        elif isinstance(index, int):
            call = self._by_index.get(index)
            if call is not None and id and call.call_id and id != call.call_id:
                call = self._by_id.get(id)
        elif id:
            call = self._by_id.get(id)
        elif self._calls and not (_names(delta) and self._calls[-1].name):
            call = self._calls[-1]
        if call is None:
            call = _Call()
            self._calls.append(call)
            if len(self._calls) > MAX_ITEMS:
                raise UpstreamError(b'"The answer has more tool calls than can be"')
        if isinstance(index, int):
            self._by_index[index] = call
        if id and not call.call_id:
            call.call_id = id
            self._by_id.setdefault(id, call)
        return call

    def _announce(self, call: _Call, name: str) -> bytes:
        call.index = self._next_index()
        origin = call.origin = self._asked.tools.get(name) or Origin("function", name)
        call.name = origin.name
        if not call.call_id:
            call.call_id = self._asked.item_id("call", call.index)
        prefix = {"custom": "ctc", "local_shell": "lsh"}.get(origin.kind, "fc")
        call.id = self._asked.item_id(prefix, call.index)
        if origin.kind != "function":
            return b""  # what it holds is known at its end
        event = "response.function_call_arguments.delta"
        call.head = (
            f'event: {event}\ndata: {{"type":"{event}","item_id":{as_json(call.id)},'
            f'"output_index":{call.index},"delta":'
        ).encode()
        out = self._added(call.index, self._call_item(call, "in_progress", ""))
        if call.pieces:
            out += self._argument_delta(call, b'"' + b"".join(call.pieces) + b'"')
        return out

    def _argument_delta(self, call: _Call, raw: bytes) -> bytes:
        out = call.head + raw + _SEQUENCE + b"%d}\n\n" % self._sequence
        self._sequence += 1
        return out

    def _close_call(self, call: _Call, cut: bool) -> bytes:
        """`cut`: the answer was cut off, so half a call is not told as one that is done."""
        out = b"" if call.index >= 0 else self._announce(call, "")
        assert call.origin is not None
        written = b"".join(call.pieces)
        text = call.arguments()
        if cut and not (written and arguments.are_whole(text)):
            self._output[call.index] = self._call_item(call, "incomplete", text if written else "")
            return out
        whole = self._output[call.index] = self._call_item(call, "completed", text)
        where = {"item_id": call.id, "output_index": call.index}
        if call.origin.kind == "function":
            if text == "{}" and written.strip() != b"{}":
                out += self._argument_delta(call, b'"{}"')
            event = "response.function_call_arguments.done"
            out += self._event(event, **where, name=call.name, arguments=text)
        else:
            out += self._added(call.index, self._call_item(call, "in_progress", ""))
        if call.origin.kind == "custom":
            event, given = "response.custom_tool_call_input", whole["input"]
            out += self._event(f"{event}.delta", **where, delta=given)
            out += self._event(f"{event}.done", **where, input=given)
        return out + self._done(call.index, whole)

    def _call_item(self, call: _Call, status: str, text: str) -> dict[str, Any]:
        assert call.origin is not None
        item: dict[str, Any] = {"id": call.id, "call_id": call.call_id, "status": status}
        if call.origin.kind == "local_shell":
            return {**item, "type": "local_shell_call", "action": _action(text)}
        item["name"] = call.name
        if call.origin.namespace is not None:
            item["namespace"] = call.origin.namespace
        if call.origin.kind == "custom":
            return {**item, "type": "custom_tool_call", "input": _input(text)}
        return {**item, "type": "function_call", "arguments": text}

    # Beginning and end.

    def begin(self) -> bytes:
        """The two first events, once."""
        if self._begun:
            return b""
        self._begun = True
        response = self._asked.response("in_progress", [])
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def keep_alive(self) -> bytes:
        """An event for a silent stream: some clients count events alone as life."""
        if not self._begun:
            return self.begin()
        return self._event("response.in_progress", response=self._asked.response("in_progress", []))

    def finish(self, reason: str) -> bytes:
        """The model has ended for `reason`, one of Chat Completions' `finish_reason`s."""
        if self._finished:
            return b""
        self._finished = True
        incomplete = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reason)
        if incomplete is not None:
            self._status = "incomplete"
            self._incomplete = {"reason": incomplete}
        out = [self.begin(), self._close_text(self._status)]
        out += [self._close_call(call, incomplete is not None) for call in self._calls]
        return b"".join(out)

    def end(self, usage: dict[str, Any] | None) -> bytes:
        """The last event of a good answer."""
        response = self.response(usage)
        return self.begin() + self._event(f"response.{self._status}", response=response)

    def fail(self, error: CerberusError) -> bytes:
        """The last event of an answer that broke."""
        response = self._asked.response("failed", self._items(), error=failure_of(error))
        return self.begin() + self._event("response.failed", response=response)

    def response(self, usage: dict[str, Any] | None) -> dict[str, Any]:
        return self._asked.response(
            self._status, self._items(), usage=usage, incomplete_details=self._incomplete
        )

    def _items(self) -> list[dict[str, Any]]:
        return [self._output[index] for index in sorted(self._output)]

    def _next_index(self) -> int:
        index = self._count
        self._count += 1
        if index >= MAX_ITEMS:
            raise UpstreamError(b'"The answer has more parts than can be"')
        return index

    def _keep(self, pieces: list[bytes], raw: bytes) -> None:
        pieces.append(raw[1:-1])
        self._size += len(raw)
        if self._size > MAX_SIZE:
            raise UpstreamError(b'"The answer is larger than can be"')

    def _added(self, index: int, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", output_index=index, item=item)

    def _done(self, index: int, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.done", output_index=index, item=item)

    def _event(self, type: str, **fields: Any) -> bytes:
        number = self._sequence
        self._sequence += 1
        data = _encode({"type": type, **fields, "sequence_number": number})
        return b"event: " + type.encode() + b"\ndata: " + data + b"\n\n"


def _names(delta: Mapping[str, Any]) -> bool:
    function = delta.get("function")
    return isinstance(function, Mapping) and bool(function.get("name"))


def _action(text: str) -> dict[str, Any]:
    told = arguments.as_object(text)
    command = told.get("command")
    if isinstance(command, str):
        command = ["bash", "-lc", command]
    elif not isinstance(command, list):
        command = []
    action: dict[str, Any] = {
        "type": "exec",
        "command": [word for word in command if isinstance(word, str)],
        "env": {},
    }
    for key, kind in (("working_directory", str), ("timeout_ms", int)):
        if isinstance(told.get(key), kind):
            action[key] = told[key]
    return action


def _input(text: str) -> str:
    """The free text of a custom tool: the one argument, or all of it from a model that forgot."""
    if not text:
        return ""
    told = arguments.as_object(text)
    given = told.get("input")
    return given if isinstance(given, str) else text


def _logprobs_of(logprobs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """(as a delta tells them, as the part keeps them)."""
    told, kept = [], []
    content = logprobs.get("content")
    for each in _mappings(content):
        top = [_logprob(one) for one in _mappings(each.get("top_logprobs"))]
        told.append({**_logprob(each), "top_logprobs": top})
        full = [_with_bytes(one) for one in _mappings(each.get("top_logprobs"))]
        kept.append({**_with_bytes(each), "top_logprobs": full})
    return told, kept


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _logprob(each: Mapping[str, Any]) -> dict[str, Any]:
    return {"token": each.get("token", ""), "logprob": each.get("logprob", 0.0)}


def _with_bytes(each: Mapping[str, Any]) -> dict[str, Any]:
    given = each.get("bytes")
    return {**_logprob(each), "bytes": given if isinstance(given, list) else []}
