"""What both ways of answering say in Messages' words. Pure."""

from typing import Any

import attrs
import msgspec

from cerberus_core.gateway.facts import Facts

_encode = msgspec.json.Encoder().encode


@attrs.frozen(kw_only=True)
class Asked:
    """What an answer must know of its request."""

    model: str
    """The model's public name."""
    request_id: str = "0"
    """Names the message: some backends give all of theirs one id, and who keeps a conversation
    joins messages of one id."""
    stop_sequences: tuple[str, ...] = ()


def message_id(asked: Asked) -> str:
    return f"msg_{asked.request_id}"


def call_id(given: Any, message: str, number: int) -> str:
    """A call's id: the backend's, which it gets back in the history."""
    return given if isinstance(given, str) and given else f"toolu_{message[4:]}_{number}"


def stop_of(
    reason: Any, matched: Any, *, calls: bool, refused: bool, asked: Asked
) -> tuple[str, str | None]:
    """(`stop_reason`, `stop_sequence`) for chat's `finish_reason`.

    `matched`: the stop string, as vLLM tells it; others say nothing of it.
    """
    if reason == "length":
        return "max_tokens", None  # though calls are there: the last one may be a half
    if reason == "content_filter" or refused:
        return "refusal", None
    if calls:
        return "tool_use", None
    if isinstance(matched, str) and matched in asked.stop_sequences:
        return "stop_sequence", matched
    return "end_turn", None


def usage_of(facts: Facts) -> dict[str, Any]:
    """The meter's figures; what nobody told is left out, but for the output's."""
    usage: dict[str, Any] = {}
    if facts.prompt_tokens is not None:
        # The dialect counts apart what a cache gave.
        cached = min(facts.cached_tokens or 0, facts.prompt_tokens)
        usage["input_tokens"] = facts.prompt_tokens - cached
        usage["cache_creation_input_tokens"] = 0
        usage["cache_read_input_tokens"] = cached
    usage["output_tokens"] = facts.tokens or 0
    return usage


def spoken(content: Any) -> tuple[str, str]:
    """(thinking, text) of a message's or a delta's content, which some backends give in parts."""
    if not isinstance(content, list):
        return "", string(content)
    said: dict[str, list[str]] = {"thinking": [], "text": []}
    for part in content:
        if isinstance(part, dict) and part.get("type") == "thinking":
            said["thinking"].append("".join(spoken(part.get("thinking"))))
        elif isinstance(part, dict):
            said["text"].append(string(part.get("text")))
    return "".join(said["thinking"]), "".join(said["text"])


def string(value: Any) -> str:
    """What is of another type than the wire says is passed over."""
    return value if isinstance(value, str) else ""


def arguments_of(value: Any) -> str:
    """A call's arguments as JSON text; some engines give the object itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else _encode(value).decode()


def input_of(arguments: str) -> dict[str, Any] | None:
    """The arguments as the object that a tool wants, {} for none, None if they aren't one."""
    if not arguments.strip():
        return {}
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return {} if value is None else value if isinstance(value, dict) else None
