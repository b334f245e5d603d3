"""A stream put together into the whole answer that the client asked for. Pure.

Some engines notice that a client has left only while they stream. Such an
engine is always asked for a stream; what it would have answered whole is made
of the pieces here, and the first token's time is known on top.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from . import sse
from .facts import Facts
from .stream import UpstreamError

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_WHOLE_NAME = {"chat.completion.chunk": "chat.completion"}


class Assembler:
    """`feed` the bytes of a stream; `answer` is the whole once `complete`."""

    def __init__(self, facts: Facts, *, now: Callable[[], float]) -> None:
        self._facts = facts
        self._now = now
        self._splitter = sse.Splitter()
        self._answer: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self.done = False
        """`[DONE]` has come."""

    def feed(self, chunk: bytes) -> None:
        """Take bytes. Raises `UpstreamError`, `sse.TooLong`."""
        for block in sse.blocks(self._splitter.feed(chunk)):
            data = sse.data_of(block)
            if data is None or self.done:
                continue
            if data.strip() == b"[DONE]":
                self.done = True
                continue
            try:
                event = _decode(data)
            except (msgspec.MsgspecError, RecursionError):
                continue
            if isinstance(event, dict):
                self._take(event)

    @property
    def complete(self) -> bool:
        """Every choice has told why it ended."""
        return bool(self._choices) and all(
            choice.get("finish_reason") for choice in self._choices.values()
        )

    def answer(self) -> bytes:
        """The whole answer as JSON."""
        choices = []
        for _, choice in sorted(self._choices.items()):
            message = choice.get("message")
            if message and not message.get("content") and message.get("tool_calls"):
                message["content"] = None
            choices.append(choice)
        return _encode({**self._answer, "choices": choices})

    def _take(self, event: dict[str, Any]) -> None:
        error = event.get("error")
        if error:
            raise UpstreamError(_encode(error))
        if event.get("usage") is not None:
            self._facts.take_usage(_encode(event["usage"]))
        if event.get("timings") is not None:
            self._facts.take_timings(_encode(event["timings"]))
        for key, value in event.items():
            if key == "object" and isinstance(value, str):
                self._answer[key] = _WHOLE_NAME.get(value, value)
            elif key != "choices" and (value is not None or key not in self._answer):
                self._answer[key] = value
        content = False
        for part in _list(event.get("choices")):
            content = self._take_choice(_dict(part)) or content
        if content:
            now = self._now()
            if self._facts.first_at is None:
                self._facts.first_at = now
            self._facts.last_at = now
            self._facts.pieces += 1

    def _take_choice(self, part: dict[str, Any]) -> bool:
        index = part.get("index")
        index = index if isinstance(index, int) else 0
        choice = self._choices.setdefault(index, {"index": index})
        content = False
        for key, value in part.items():
            if key == "delta":
                message = choice.setdefault("message", {"role": "assistant", "content": ""})
                content = _merge_delta(message, _dict(value)) or content
            elif key == "text":
                choice["text"] = choice.get("text", "") + _text(value)
                content = content or bool(value)
            elif key == "logprobs":
                choice[key] = _merged_logprobs(choice.get(key), value)
            elif key != "index" and (value is not None or key not in choice):
                choice[key] = value
        return content


def _merge_delta(message: dict[str, Any], delta: dict[str, Any]) -> bool:
    content = False
    for key, value in delta.items():
        if key == "tool_calls":
            for call in _list(value):
                _merge_call(message.setdefault("tool_calls", []), _dict(call))
                content = True
        elif key == "role":
            message["role"] = value or message["role"]
        elif isinstance(value, str):
            message[key] = _text(message.get(key)) + value
            content = content or bool(value)
        elif value is not None:
            message[key] = value
    return content


def _merge_call(calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
    index = part.get("index")
    position = index if isinstance(index, int) and 0 <= index <= len(calls) else len(calls)
    if position == len(calls):
        calls.append({"type": "function", "function": {"name": "", "arguments": ""}})
    call = calls[position]
    for key, value in part.items():
        if key == "function":
            for name, text in _dict(value).items():
                call["function"][name] = _text(call["function"].get(name)) + _text(text)
        elif key != "index" and value is not None:
            call[key] = value


def _merged_logprobs(so_far: Any, more: Any) -> Any:
    if not isinstance(so_far, dict) or not isinstance(more, dict):
        return more if more is not None else so_far
    merged = dict(so_far)
    for key, value in more.items():
        known = merged.get(key)
        if isinstance(known, list) and isinstance(value, list):
            merged[key] = [*known, *value]
        else:
            merged[key] = value
    return merged


# What is of another type than the wire says is passed over.


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
