"""The conversation: turns of content blocks as chat messages. Pure.

Messages has two roles and lets a tool's results stand in the user's turn; chat has a
role for each and wants the results right after the call. So a run of user and system
messages is one turn: first its tool results, then one user message with the rest.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import attrs
import msgspec

from cerberus_core.errors import BadRequest, Unsupported
from cerberus_core.gateway.wires import expect

from .content import (
    Part,
    block_parts,
    blocks_of,
    flat,
    is_text,
    joined,
    kind_of,
    parts_of,
    system_text,
    text_part,
)
from .target import Target

_encode = msgspec.json.Encoder().encode

NO_OUTPUT = "(no output)"
SEE_IMAGES = "(images: in the next message)"
ROLES = ("user", "assistant", "system", "developer")


@attrs.frozen
class _Message:
    path: str
    role: str
    content: Any


def chat_messages(fields: Mapping[str, Any], target: Target) -> list[dict[str, Any]]:
    """`system` and `messages` as chat messages. Raises `BadRequest`, `Unsupported`."""
    messages = _read(fields)
    system = fields.get("system")
    leading = [] if system is None else [system_text(system, "system")]
    first = next((i for i, m in enumerate(messages) if _is_turn(m)), len(messages))
    leading += [system_text(m.content, f"{m.path}.content") for m in messages[:first]]
    out: list[dict[str, Any]] = []
    text = "\n\n".join(filter(None, leading))
    if text:
        out.append({"role": "system", "content": text})
    names: dict[str, str] = {}
    for assistant, turn in groupby(messages[first:], lambda m: m.role == "assistant"):
        if assistant:
            out.append(_assistant(list(turn), target, names))
        else:
            out += _user(list(turn), target, names)
    return out


def _read(fields: Mapping[str, Any]) -> list[_Message]:
    raw = expect.items(expect.required(fields, "messages", ""), "messages")
    if not raw:
        raise BadRequest("`messages` is empty", hint="Send at least one message.")
    messages = []
    for index, value in enumerate(raw):
        path = f"messages[{index}]"
        message = expect.mapping(value, path)
        role = expect.required(message, "role", path)
        if role not in ROLES:
            raise expect.wrong(f"{path}.role", '"user", "assistant" or "system"')
        content = message.get("content")
        messages.append(_Message(path, role, [] if content is None else content))
    return messages


def _is_turn(message: _Message) -> bool:
    return message.role in ("user", "assistant")


# The user's turn.


def _user(turn: list[_Message], target: Target, names: dict[str, str]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    pictures: list[Part] = []
    parts: list[Part] = []
    for message in turn:
        path = f"{message.path}.content"
        if message.role != "user":
            text = system_text(message.content, path)
            if text:
                # As Claude Code itself marks such words inside a user's turn.
                parts.append(text_part(f"<system-reminder>\n{text}\n</system-reminder>"))
        elif isinstance(message.content, str):
            parts += parts_of(message.content, path, target)
        else:
            for place, block in blocks_of(message.content, path):
                if kind_of(block, place) == "tool_result":
                    result, images = _tool_result(block, place, target, names)
                    results.append(result)
                    pictures += images
                else:
                    parts += block_parts(block, place, target)
    parts = pictures + parts
    if not parts and results:
        return results
    return [*results, {"role": "user", "content": flat(parts)}]


def _tool_result(
    block: dict[str, Any], path: str, target: Target, names: dict[str, str]
) -> tuple[dict[str, Any], list[Part]]:
    """The tool's message, and its images for the user's message after it."""
    call = expect.string(expect.required(block, "tool_use_id", path), f"{path}.tool_use_id")
    content = block.get("content")
    parts = [] if content is None else parts_of(content, f"{path}.content", target)
    images = [part for part in parts if not is_text(part)]
    text = joined(parts) or (SEE_IMAGES if images else NO_OUTPUT)
    failed = block.get("is_error")
    if failed is not None and expect.flag(failed, f"{path}.is_error"):
        text = text if text.startswith("Error") else f"Error: {text}"
    if images:
        images.insert(0, text_part(f"From the result of {names.get(call, 'the tool')} ({call}):"))
    return {"role": "tool", "tool_call_id": call, "content": text}, images


# The assistant's turn.


def _assistant(turn: list[_Message], target: Target, names: dict[str, str]) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for message in turn:
        if isinstance(message.content, str):
            texts.append(message.content)
            continue
        for path, block in blocks_of(message.content, f"{message.path}.content"):
            kind = kind_of(block, path)
            if kind == "tool_use":
                call = _call(block, path)
                names[call["id"]] = call["function"]["name"]
                calls.append(call)
            elif kind == "thinking":
                thoughts.append(expect.string(block.get("thinking", ""), f"{path}.thinking"))
            elif kind == "redacted_thinking":
                continue
            elif kind == "image":
                raise Unsupported(f"`{path}`: a model's own turn can't hold images")
            else:
                texts.append(joined(block_parts(block, path, target)))
    # An empty text, no null, beside calls: engines are known to refuse the null.
    out: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(filter(None, texts))}
    if target.reasons and any(thoughts):
        out["reasoning_content"] = "\n\n".join(filter(None, thoughts))
    if calls:
        out["tool_calls"] = calls
    return out


def _call(block: dict[str, Any], path: str) -> dict[str, Any]:
    id = expect.string(expect.required(block, "id", path), f"{path}.id")
    name = expect.string(expect.required(block, "name", path), f"{path}.name")
    arguments = expect.mapping(block.get("input") or {}, f"{path}.input")
    try:
        written = _encode(arguments).decode()
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        raise expect.wrong(f"{path}.input", "an object of JSON") from None
    return {"id": id, "type": "function", "function": {"name": name, "arguments": written}}
