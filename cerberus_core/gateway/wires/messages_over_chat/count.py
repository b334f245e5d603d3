"""How many tokens a request has. Pure."""

import string
from collections.abc import Mapping
from typing import Any

import msgspec

from .request import chat
from .target import OPEN, Target

_encode = msgspec.json.Encoder().encode

LETTER, SIGN, DIGIT, LINE, FOREIGN = 0.26, 0.8, 1.0, 1.0, 0.4
"""Tokens for each byte of its kind, fitted to a vocabulary of 49,000: larger ones make
fewer tokens. Prose, code and JSON come out within a tenth; lists of hashes, terse code and
other scripts have up to a half more than it says."""
PER_MESSAGE = 4
"""What a template puts around each message."""
PER_IMAGE = 1500
"""About what a large picture costs; a small one costs less."""

_KINDS = (string.punctuation.encode(), string.digits.encode(), bytes(range(128, 256)))


def count_request(fields: Mapping[str, Any], target: Target = OPEN) -> dict[str, Any]:
    """The chat request whose prompt is to be counted. Raises `BadRequest`, `Unsupported`."""
    return chat(fields, target)


def estimate_tokens(fields: Mapping[str, Any], target: Target = OPEN) -> int:
    """About how many tokens the prompt of a Messages request has.

    An estimate for backends that can't count: by the kinds of characters in what the
    model would read, without its tokenizer. Raises as `count_request`.
    """
    request = count_request(fields, target)
    size, images = 0.0, 0
    for message in request["messages"]:
        content = message["content"]
        for part in content if isinstance(content, list) else [{"text": content}]:
            if "text" in part:
                size += _tokens(part["text"])
            else:
                images += 1
        size += _tokens(message.get("reasoning_content", ""))
        for call in message.get("tool_calls", ()):
            size += _tokens(call["function"]["name"]) + _tokens(call["function"]["arguments"])
    for tool in request.get("tools", ()):
        size += _json(tool["function"])
    whole = size + PER_MESSAGE * len(request["messages"]) + PER_IMAGE * images
    return max(1, round(whole))


def _tokens(text: str) -> float:
    data = text.encode(errors="replace")
    signs, digits, foreign = (len(data) - len(data.translate(None, kind)) for kind in _KINDS)
    lines, spaces = data.count(b"\n"), data.count(b" ")
    letters = len(data) - signs - digits - foreign - lines - spaces
    return LETTER * letters + SIGN * signs + DIGIT * digits + LINE * lines + FOREIGN * foreign


def _json(value: Any) -> float:
    try:
        return _tokens(_encode(value).decode())
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return _tokens(repr(value))
