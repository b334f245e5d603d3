"""Chunks of a Chat Completions stream as the translators read them: one decode each. Pure."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from cerberus_core.gateway import sse
from cerberus_core.gateway.stream import UpstreamError

NULL = Raw(b"null")
_NOTHING = (b"null", b'""', b"[]", b"{}")


class Delta(msgspec.Struct):
    content: Raw = NULL
    reasoning_content: Raw = NULL
    reasoning: Raw = NULL
    refusal: Raw = NULL
    tool_calls: Raw = NULL


class Choice(msgspec.Struct):
    index: int = 0
    delta: Delta | None = None
    finish_reason: str | None = None
    logprobs: Raw = NULL


class Chunk(msgspec.Struct):
    choices: list[Choice] | None = None
    usage: Raw = NULL
    timings: Raw = NULL
    error: Raw = NULL


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Chunk).decode


T = TypeVar("T")
_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F]..)"
)


def read(data: bytes) -> Chunk | None:
    """None for what is no chunk."""
    return decoded(_decode, data)


def decoded(decode: Callable[[bytes], T], data: bytes) -> T | None:
    """None for what can't be decoded.

    Some servers cut a text between the two halves of an escaped character; a half is
    no JSON, and becomes U+FFFD so that the rest of its event isn't lost.
    """
    try:
        return decode(data)
    except (msgspec.MsgspecError, RecursionError):
        pass
    mended = _SURROGATE.sub(lambda match: match[1] + (match[2] or b"\\ufffd"), data)
    if mended == data:
        return None
    try:
        return decode(mended)
    except (msgspec.MsgspecError, RecursionError):
        return None


def text_of(raw: Raw) -> bytes:
    """A JSON string that isn't empty, as it came; b"" for anything else."""
    data = bytes(raw)
    return data if len(data) > 2 and data[0] == 34 else b""


def json_of(value: Any) -> bytes:
    """Raises `UpstreamError` for what is nested as deeply as can just be read."""
    try:
        return _encode(value)
    except RecursionError:
        raise UpstreamError(b'"The answer is nested too deeply"') from None


def is_something(raw: Raw) -> bool:
    return bytes(raw) not in _NOTHING


def value_of(raw: Raw) -> Any:
    """None for what can't be decoded."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


def texts_of(events: bytes) -> list[bytes] | None:
    """The texts of whole events that hold nothing else; None if one holds more."""
    texts = []
    for block in sse.blocks(events):
        data = sse.data_of(block)
        chunk = None if data is None else read(data)
        if chunk is None or chunk.choices is None or len(chunk.choices) != 1:
            return None
        choice = chunk.choices[0]
        delta = choice.delta
        if delta is None or choice.finish_reason is not None or choice.index != 0:
            return None
        text = text_of(delta.content)
        if not text or any(
            raw is not NULL and is_something(raw)
            for raw in (
                *(chunk.usage, chunk.timings, chunk.error, choice.logprobs, delta.tool_calls),
                *(delta.reasoning_content, delta.reasoning, delta.refusal),
            )
        ):
            return None
        texts.append(text)
    return texts or None
