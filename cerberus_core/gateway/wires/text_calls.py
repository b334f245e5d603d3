"""Chat answers in which tool calls that stand in the text are told as calls. Pure.

It stands before whatever reads a chat answer: the way straight to the client, or a
translator. What it hands on is a chat answer as well.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from cerberus_core.errors import CerberusError
from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts

from . import chat_events
from .tool_text import Reader, WrittenCall, read

KEEP_ALIVE = b": keep-alive\n\n"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class AnswerStream(Protocol):
    """What reads the chunks; `ways.AnswerStream` tells what each does."""

    @property
    def done(self) -> bool: ...

    @property
    def before_error(self) -> bytes: ...

    @property
    def finished(self) -> bool: ...

    def feed(self, chunk: bytes) -> bytes: ...

    def tail(self, extra: dict[str, Any]) -> bytes: ...


class VoicedStream(AnswerStream, Protocol):
    def keep_alive(self) -> bytes: ...

    def failed(self, error: CerberusError) -> bytes: ...


def offered(fields: Mapping[str, Any]) -> frozenset[str]:
    """The names of the tools that a chat request lets the model call."""
    tools = fields.get("tools")
    if fields.get("tool_choice") == "none" or not isinstance(tools, list):
        return frozenset()
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    names = [function.get("name") for function in functions if isinstance(function, dict)]
    return frozenset(name for name in names if isinstance(name, str))


def whole(data: bytes, tools: frozenset[str], answer_id: str) -> bytes:
    """A whole answer; as it came where nothing in it is a call."""
    try:
        fields = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data
    choices = fields.get("choices") if isinstance(fields, dict) else None
    ids = _Ids(answer_id)
    changed = [_call_in(choice, tools, ids) for choice in _dicts(choices)]
    try:
        return _encode(fields) if any(changed) else data
    except RecursionError:
        return data


def _call_in(choice: dict[str, Any], tools: frozenset[str], ids: "_Ids") -> bool:
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("tool_calls"):
        return False
    text = message.get("content")
    if not isinstance(text, str):
        return False
    shown, calls = read(text, tools)
    if not calls:
        return False
    message["content"] = shown or None
    message["tool_calls"] = [ids.call(call) for call in calls]
    _call_it_calls(choice)
    return True


def _call_it_calls(choice: dict[str, Any]) -> None:
    if choice.get("finish_reason") == "stop":
        choice["finish_reason"] = "tool_calls"


class _Ids:
    """Gives the calls of one answer their ids."""

    def __init__(self, answer_id: str) -> None:
        self._answer_id = answer_id
        self._count = 0

    def call(self, call: WrittenCall) -> dict[str, Any]:
        id = f"call_{self._answer_id}_{self._count}"
        self._count += 1
        function = {"name": call.name, "arguments": call.arguments}
        return {"id": id, "type": "function", "function": function}


class TextCallsStream:
    """One streamed answer, for the stream `inner`. The interface is `OpenAIStream`'s."""

    def __init__(
        self,
        inner: AnswerStream,
        facts: Facts,
        *,
        tools: frozenset[str],
        answer_id: str,
        now: Callable[[], float],
    ) -> None:
        self._inner = inner
        self._facts = facts
        self._tools = tools
        self._ids = _Ids(answer_id)
        self._now = now
        self._splitter = sse.Splitter()
        self._readers: dict[Any, Reader | None] = {}
        """By choice; None where it makes real calls, or has ended."""

    @property
    def done(self) -> bool:
        return self._inner.done

    @property
    def before_error(self) -> bytes:
        return self._inner.before_error

    @property
    def finished(self) -> bool:
        return self._inner.finished

    def feed(self, chunk: bytes) -> bytes:
        """What to send for `chunk`. Raises `UpstreamError`, `sse.TooLong`."""
        events = self._splitter.feed(chunk)
        if not events:
            return b""
        return self._inner.feed(b"".join(self._event(block) for block in sse.blocks(events)))

    def quick(self, chunk: bytes) -> bytes | None:
        return None

    def passed(self) -> None:
        """Nothing goes the quick way."""

    def tail(self, extra: dict[str, Any]) -> bytes:
        return self._inner.tail(extra)

    def _event(self, block: bytes) -> bytes:
        """The events in its place."""
        data = sse.data_of(block)
        event = None if data is None else chat_events.decoded(_decode, data)
        if not isinstance(event, dict) or not isinstance(event.get("choices"), list):
            return block + b"\n\n"
        ends = [end for choice in _dicts(event.get("choices")) if (end := self._choice(choice))]
        if not ends:
            return KEEP_ALIVE if _says_nothing(event) else _data(event)
        figures = {key: event.pop(key) for key in ("usage", "timings") if key in event}
        return _data(event) + _data({**event, "choices": ends, **figures})

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any] | None:
        """Its end as a choice of its own, where calls come before it."""
        index, delta = choice.get("index") or 0, choice.get("delta")
        if not isinstance(index, int) or not isinstance(delta, dict | None):
            return None
        if index not in self._readers:
            self._readers[index] = Reader(self._tools)
        reader = self._readers[index]
        if reader is None:
            return None
        delta = delta or {}
        text = delta.get("content")
        text = text if isinstance(text, str) else ""
        shown = reader.feed(text)
        calls: list[WrittenCall] = []
        if delta.get("tool_calls"):
            shown += reader.release()
        elif choice.get("finish_reason"):
            held, calls = reader.end()
            shown += held
        if delta.get("tool_calls") or choice.get("finish_reason"):
            self._readers[index] = None
        self._meter(came=bool(text), told=bool(shown or calls))
        if text or shown:
            choice["delta"] = delta = {**delta, "content": shown}
        if not calls:
            return None
        made = [{"index": n, **self._ids.call(call)} for n, call in enumerate(calls)]
        end = {**choice, "delta": {}}
        _call_it_calls(end)
        choice |= {"delta": {**delta, "tool_calls": made}, "finish_reason": None}
        return end

    def _meter(self, *, came: bool, told: bool) -> None:
        """Count a token when it comes; `inner` counts what it is told of."""
        if came and not told:
            now = self._now()
            if self._facts.first_at is None:
                self._facts.first_at = now
            self._facts.last_at = now
            self._facts.pieces += 1
        elif told and not came:
            self._facts.pieces -= 1


class VoicedTextCallsStream(TextCallsStream):
    """For a stream that has a voice of its own (`client.Voice`)."""

    _inner: VoicedStream

    def keep_alive(self) -> bytes:
        return self._inner.keep_alive()

    def failed(self, error: CerberusError) -> bytes:
        return self._inner.failed(error)


def _says_nothing(event: dict[str, Any]) -> bool:
    """All its words are held back."""
    told = any(event.get(key) for key in ("usage", "timings", "error"))
    choices = event.get("choices")
    return not told and bool(choices) and all(_is_silent(choice) for choice in choices or ())


def _is_silent(choice: Any) -> bool:
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict) or choice.get("finish_reason"):
        return False
    return "content" in delta and not any(delta.values())


def _data(event: dict[str, Any]) -> bytes:
    return b"data: " + chat_events.json_of(event) + b"\n\n"


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
