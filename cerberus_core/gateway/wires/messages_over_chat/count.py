"""How many tokens a request has. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from .request import chat
from .target import OPEN, Target

_encode = msgspec.json.Encoder().encode

BYTES_PER_TOKEN = 3.5
"""English prose has about 4.4 UTF-8 bytes in a token, code 3 to 3.5, Chinese 3 to 4."""
PER_MESSAGE = 4
"""What a template puts around each message."""
PER_IMAGE = 1500
"""About what a large picture costs; a small one costs less."""


def count_request(fields: Mapping[str, Any], target: Target = OPEN) -> dict[str, Any]:
    """The chat request whose prompt is to be counted. Raises `BadRequest`, `Unsupported`."""
    return chat(fields, target)


def estimate_tokens(fields: Mapping[str, Any], target: Target = OPEN) -> int:
    """About how many tokens the prompt of a Messages request has.

    An estimate for backends that can't count: from the length of what the model would
    read, without its tokenizer. It errs upwards more often than downwards, so that a
    client which makes room by it does so in time. Raises as `count_request`.
    """
    request = count_request(fields, target)
    size, images = 0, 0
    for message in request["messages"]:
        content = message["content"]
        for part in content if isinstance(content, list) else [{"text": content}]:
            if "text" in part:
                size += _length(part["text"])
            else:
                images += 1
        size += _length(message.get("reasoning_content", ""))
        for call in message.get("tool_calls", ()):
            size += _length(call["function"]["name"]) + _length(call["function"]["arguments"])
    for tool in request.get("tools", ()):
        size += _json_length(tool["function"])
    whole = size / BYTES_PER_TOKEN + PER_MESSAGE * len(request["messages"]) + PER_IMAGE * images
    return max(1, round(whole))


def _length(text: str) -> int:
    return len(text.encode(errors="replace"))


def _json_length(value: Any) -> int:
    try:
        return len(_encode(value))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return _length(repr(value))
