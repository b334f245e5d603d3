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

MAX_PARTS = 4096
"""Choices and tool calls, all together."""

_decode = msgspec.json.Decoder().decode
_WHOLE_NAME = {"chat.completion.chunk": "chat.completion"}


class TooManyParts(Exception):
    """More than `MAX_PARTS` choices and tool calls."""


class _Text:
    """A text in pieces, joined once: joining at each piece would take the square of the time."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def __bool__(self) -> bool:
        return any(self.pieces)


def _joined(value: Any) -> str:
    assert isinstance(value, _Text)
    return "".join(value.pieces)


_encode = msgspec.json.Encoder(enc_hook=_joined).encode


class Assembler:
    """`feed` the bytes of a stream; `answer` is the whole once `complete`."""

    def __init__(self, facts: Facts, *, now: Callable[[], float]) -> None:
        self._facts = facts
        self._now = now
        self._splitter = sse.Splitter()
        self._answer: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._parts = 0
        self.done = False
        """`[DONE]` has come."""

    def feed(self, chunk: bytes) -> None:
        """Take bytes. Raises `UpstreamError`, `sse.TooLong`, `TooManyParts`."""
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
        choice = self._choices.get(index)
        if choice is None:
            self._count_part()
            choice = self._choices[index] = {"index": index}
        content = False
        for key, value in part.items():
            if key in ("delta", "message"):
                if key == "message" or "message" not in choice:
                    choice["message"] = {"role": "assistant", "content": _Text()}
                content = self._merge_delta(choice["message"], _dict(value)) or content
            elif key == "text":
                _append(choice, key, value)
                content = content or bool(value)
            elif key == "logprobs":
                choice[key] = _merged_logprobs(choice.get(key), value)
            elif key != "index" and (value is not None or key not in choice):
                choice[key] = value
        return content

    def _merge_delta(self, message: dict[str, Any], delta: dict[str, Any]) -> bool:
        content = False
        for key, value in delta.items():
            if key == "tool_calls":
                calls = message.setdefault("tool_calls", [])
                for call in _list(value):
                    self._merge_call(calls, _dict(call))
                    content = True
            elif key == "role":
                message["role"] = value or message["role"]
            elif isinstance(value, str):
                _append(message, key, value)
                content = content or bool(value)
            elif value is not None:
                message[key] = value
        return content

    def _merge_call(self, calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
        index = part.get("index")
        position = index if isinstance(index, int) and 0 <= index <= len(calls) else len(calls)
        if position < len(calls) and _is_another(calls[position], part):
            position = len(calls)  # some number all of them 0
        if position == len(calls):
            self._count_part()
            calls.append({"type": "function", "function": {"name": _Text(), "arguments": _Text()}})
        call = calls[position]
        for key, value in part.items():
            if key == "function":
                for name, text in _dict(value).items():
                    _append(call["function"], name, text)
            elif key != "index" and value is not None:
                call[key] = value

    def _count_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise TooManyParts


def _is_another(call: dict[str, Any], part: dict[str, Any]) -> bool:
    """Whether `part` begins a call of its own: one with a name and another id."""
    own = part.get("id")
    named = bool(_dict(part.get("function")).get("name"))
    return named and bool(own) and call.get("id") not in (None, own)


def _append(target: dict[str, Any], key: str, value: Any) -> None:
    text = target.get(key)
    if not isinstance(text, _Text):
        text = target[key] = _Text()
    if isinstance(value, str):
        text.pieces.append(value)


def _merged_logprobs(so_far: Any, more: Any) -> Any:
    if not isinstance(so_far, dict) or not isinstance(more, dict):
        return more if more is not None else so_far
    for key, value in more.items():
        known = so_far.get(key)
        if isinstance(known, list) and isinstance(value, list):
            known.extend(value)
        else:
            so_far[key] = value
    return so_far


# What is of another type than the wire says is passed over.


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
