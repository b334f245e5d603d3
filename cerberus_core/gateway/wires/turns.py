"""A chat conversation as Messages wants it: turns of user and assistant by turns. Pure.

* System and developer messages, wherever they stand, go to `system` in their order.
* Messages of one role in a row are one turn; results of tools stand first in theirs.
* Empty texts are left out, for Messages refuses them; an empty result says so in words.
* Broken arguments of a call are wrapped (`arguments.py`), ids that Messages refuses
  are mended in the call and in its result.
"""

import re
from collections.abc import Mapping
from typing import Any

from cerberus_core.errors import Unsupported

from . import arguments
from .check import a_list, a_name, a_text, an_object, wrong
from .conversation import NO_OUTPUT

Block = dict[str, Any]
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)


def turns(messages: list[Any]) -> tuple[list[Block], list[dict[str, Any]]]:
    """(`system`, `messages`). Raises `BadRequest`, `Unsupported`."""
    system: list[Block] = []
    out: list[dict[str, Any]] = []
    for index, value in enumerate(messages):
        path = f"messages[{index}]"
        message = an_object(value, path)
        role = message.get("role")
        if role in ("system", "developer"):
            blocks = _content(message.get("content"), f"{path}.content")
            if any(block["type"] != "text" for block in blocks):
                raise wrong(f"{path}.content", "text alone in a system message")
            system += blocks
        elif role == "user":
            _add(out, "user", _content(message.get("content"), f"{path}.content"))
        elif role == "assistant":
            _add(out, "assistant", _said(message, path))
        elif role == "tool":
            _add(out, "user", [_result(message, path)])
        else:
            raise wrong(f"{path}.role", '"system", "developer", "user", "assistant" or "tool"')
    for turn in out:
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    if not out:  # Messages needs one at least
        return [], [{"role": "user", "content": system}] if system else []
    _end(out)
    return system, out


def forgets_thinking(messages: list[dict[str, Any]]) -> bool:
    """The last calls came without the thinking before them.

    Messages refuses to think on in such a turn.
    """
    for turn in reversed(messages):
        if turn["role"] == "assistant":
            kinds = [block["type"] for block in turn["content"]]
            return "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking")
    return False


def _add(out: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if out and out[-1]["role"] == role:
        out[-1]["content"] += blocks
    else:
        out.append({"role": role, "content": blocks})


def _end(out: list[dict[str, Any]]) -> None:
    """An answer that was begun may not end in blanks."""
    if out[-1]["role"] != "assistant":
        return
    block = out[-1]["content"][-1]
    if block["type"] == "text" and block["text"] != block["text"].rstrip():
        block["text"] = block["text"].rstrip()
        if not block["text"]:
            out[-1]["content"].pop()
            if not out[-1]["content"]:
                out.pop()


def _said(message: Mapping[str, Any], path: str) -> list[Block]:
    thinking = message.get("thinking_blocks")
    blocks = [
        dict(block)
        for block in (thinking if isinstance(thinking, list) else [])
        if isinstance(block, Mapping) and block.get("type") in ("thinking", "redacted_thinking")
    ]
    if message.get("content") is not None:
        blocks += _content(message["content"], f"{path}.content")
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        blocks.append({"type": "text", "text": message["refusal"]})
    if message.get("function_call") is not None:
        raise Unsupported(f"`{path}.function_call` is not translated: send `tool_calls`")
    calls = message.get("tool_calls")
    for index, value in enumerate([] if calls is None else a_list(calls, f"{path}.tool_calls")):
        where = f"{path}.tool_calls[{index}]"
        call = an_object(value, where)
        function = an_object(call.get("function"), f"{where}.function")
        blocks.append(
            {
                "type": "tool_use",
                "id": _id(call.get("id"), f"{where}.id"),
                "name": a_name(function.get("name"), f"{where}.function.name"),
                "input": arguments.as_object(function.get("arguments")),
            }
        )
    return blocks


def _result(message: Mapping[str, Any], path: str) -> Block:
    blocks = _content(message.get("content"), f"{path}.content")
    plain = len(blocks) == 1 and set(blocks[0]) == {"type", "text"}
    return {
        "type": "tool_result",
        "tool_use_id": _id(message.get("tool_call_id"), f"{path}.tool_call_id"),
        "content": blocks[0]["text"] if plain else blocks or NO_OUTPUT,
    }


def _id(value: Any, path: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", a_name(value, path))


def _content(value: Any, path: str) -> list[Block]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    if not isinstance(value, list):
        raise wrong(path, "a string or a list of parts")
    blocks = []
    for index, part in enumerate(value):
        where = f"{path}[{index}]"
        part = an_object(part, where)
        block = _block(part, where)
        if block is not None:
            if isinstance(part.get("cache_control"), Mapping):
                block["cache_control"] = part["cache_control"]
            blocks.append(block)
    return blocks


def _block(part: Mapping[str, Any], path: str) -> Block | None:
    kind = part.get("type")
    if kind in ("text", "refusal"):
        text = a_text(part.get(kind), f"{path}.{kind}")
        return {"type": "text", "text": text} if text else None
    if kind == "image_url":
        image = an_object(part.get("image_url"), f"{path}.image_url")
        url = a_name(image.get("url"), f"{path}.image_url.url")
        return {"type": "image", "source": _source(url, "image/png", f"{path}.image_url.url")}
    if kind == "file":
        file = an_object(part.get("file"), f"{path}.file")
        if file.get("file_data") is None:
            raise Unsupported(
                f"`{path}.file` has no `file_data`, and files are not kept or fetched here",
                hint="Send the data itself.",
            )
        data = a_name(file["file_data"], f"{path}.file.file_data")
        return {
            "type": "document",
            "source": _source(data, "application/pdf", f"{path}.file.file_data"),
        }
    if kind == "input_audio":
        raise Unsupported(f"`{path}` is audio, which this model's backend can't take")
    raise wrong(f"{path}.type", '"text", "image_url", "file" or "refusal"')


def _source(url: str, otherwise: str, path: str) -> dict[str, str]:
    match = _DATA_URL.match(url)
    if match:
        kind = match[1].lower() or otherwise
        return {"type": "base64", "media_type": kind, "data": url[match.end() :]}
    if url.startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    raise wrong(path, "a data URL in base64 or an http address")
