"""The text of an answer as it went to a client, of any of the wires. Pure."""

from typing import Any

import msgspec


def said(data: bytes) -> str | None:
    """What the model said; None where the answer holds no text."""
    if data.startswith((b"data:", b"event:", b":")):
        pieces = [_piece(_json(line[5:])) for line in data.splitlines() if line[:5] == b"data:"]
    else:
        pieces = [_whole(_json(data))]
    return "".join(pieces) or None


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _piece(event: dict[str, Any]) -> str:
    """Of one event of a stream."""
    delta = event.get("delta")
    if event.get("type") == "response.output_text.delta":
        return _text(delta)
    if isinstance(delta, dict):  # Messages
        return _text(delta.get("text"))
    return _first_choice(event, "delta")


def _whole(answer: dict[str, Any]) -> str:
    blocks = _objects(answer.get("content"))  # Messages
    for item in _objects(answer.get("output")):  # Responses
        blocks += _objects(item.get("content"))
    if blocks:
        return "".join(_text(block.get("text")) for block in blocks)
    return _first_choice(answer, "message")


def _first_choice(answer: dict[str, Any], of: str) -> str:
    for choice in _objects(answer.get("choices")):
        if choice.get("index") in (0, None):
            message = choice.get(of)
            told = message.get("content") if isinstance(message, dict) else choice.get("text")
            return _text(told)
    return ""


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
