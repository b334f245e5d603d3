"""A whole answer. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cerberus_core.errors import UpstreamFailed
from cerberus_core.gateway.facts import Facts

from .words import (
    Asked,
    arguments_of,
    call_id,
    input_of,
    message_id,
    spoken,
    stop_of,
    string,
    usage_of,
)

_encode = msgspec.json.Encoder().encode


def answer(body: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """A chat completion as a Messages answer. Raises `UpstreamFailed`."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise UpstreamFailed(f"{asked.model} answered without a message")
    id = message_id(asked)
    reason = choice.get("finish_reason")
    thought, text = spoken(message.get("content"))
    refusal = string(message.get("refusal"))
    calls = _calls(message.get("tool_calls"), id, cut=reason == "length")
    content: list[dict[str, Any]] = []
    thinking = (
        string(message.get("reasoning_content")) or string(message.get("reasoning")) or thought
    )
    if thinking:
        content.append({"type": "thinking", "thinking": thinking, "signature": ""})
    if text or refusal:
        content.append({"type": "text", "text": text or refusal})
    stop_reason, stop_sequence = stop_of(
        reason, choice.get("stop_reason"), calls=bool(calls), refused=bool(refusal), asked=asked
    )
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content + calls,
        "stop_reason": stop_reason,
        "stop_sequence": stop_sequence,
        "usage": _usage(body),
    }


def _calls(value: Any, message: str, *, cut: bool) -> list[dict[str, Any]]:
    """The tool calls. `cut`: the answer was cut off, so a broken one is a half, and left out."""
    calls: list[dict[str, Any]] = []
    for given in value if isinstance(value, list) else []:
        function = given.get("function") if isinstance(given, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            continue
        arguments = arguments_of(function.get("arguments"))
        if cut and input_of(arguments) is None:
            continue
        id = call_id(given.get("id"), message, len(calls))
        calls.append(_tool_use(id, function["name"], arguments))
    return calls


def _tool_use(id: str, name: str, arguments: str) -> dict[str, Any]:
    """Arguments that are no object become one that no tool takes, so that the model hears of it."""
    given = input_of(arguments)
    given = {"INVALID_JSON": arguments} if given is None else given
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def _usage(body: Mapping[str, Any]) -> dict[str, Any]:
    facts = Facts()
    for key, take in (("usage", facts.take_usage), ("timings", facts.take_timings)):
        value = body.get(key)
        if isinstance(value, dict):
            take(_encode(value))
    # The dialect demands a number.
    return {"input_tokens": 0} | usage_of(facts)
