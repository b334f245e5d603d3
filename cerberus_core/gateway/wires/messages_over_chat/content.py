"""Content blocks as parts of a chat message. Pure."""

from typing import Any

from cerberus_core.errors import Unsupported
from cerberus_core.gateway.wires import expect

from .target import Target

Part = dict[str, Any]
BILLING = "x-anthropic-billing-header:"


def parts_of(content: Any, path: str, target: Target) -> list[Part]:
    """What a user may say: text, images, documents of text. `content` may be a string."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    parts: list[Part] = []
    for place, block in blocks_of(content, path):
        parts += block_parts(block, place, target)
    return parts


def blocks_of(content: Any, path: str) -> list[tuple[str, dict[str, Any]]]:
    """Each block with its path. Raises `BadRequest`."""
    if not isinstance(content, list):
        raise expect.wrong(path, "a string or a list of content blocks")
    return [
        (f"{path}[{index}]", expect.mapping(block, f"{path}[{index}]"))
        for index, block in enumerate(content)
    ]


def block_parts(block: dict[str, Any], path: str, target: Target) -> list[Part]:
    """One block of those that a user's turn or a tool's result may hold."""
    kind = kind_of(block, path)
    if kind == "text":
        text = expect.string(expect.required(block, "text", path), f"{path}.text")
        return [text_part(text)] if text else []
    if kind == "image":
        return [_image(block, path, target)]
    if kind == "document":
        return _document(block, path, target)
    if kind == "search_result":
        return _search_result(block, path)
    if kind == "tool_reference":
        name = expect.string(expect.required(block, "tool_name", path), f"{path}.tool_name")
        return [text_part(f"The tool {name} is at hand.")]
    raise Unsupported(
        f"`{path}.type`: {kind!r} can't be given to this model",
        hint="These can: text, image, document (of text), tool_use and tool_result.",
    )


def kind_of(block: dict[str, Any], path: str) -> str:
    return expect.string(expect.required(block, "type", path), f"{path}.type")


def text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def is_text(part: Part) -> bool:
    return bool(part["type"] == "text")


def joined(parts: list[Part]) -> str:
    """The texts of the parts as one, which every chat template takes."""
    return "\n\n".join(part["text"] for part in parts if is_text(part))


def flat(parts: list[Part]) -> str | list[Part]:
    """A plain string where there is nothing but text."""
    return joined(parts) if all(map(is_text, parts)) else parts


def system_text(system: Any, path: str) -> str:
    """The system prompt, a string or blocks of text."""
    if isinstance(system, str):
        lines = [system]
    else:
        lines = []
        for place, block in blocks_of(system, path):
            kind = kind_of(block, place)
            if kind != "text":
                raise expect.wrong(f"{place}.type", '"text"')
            lines.append(expect.string(expect.required(block, "text", place), f"{place}.text"))
    return "\n\n".join(line for line in lines if line and not line.startswith(BILLING))


def _image(block: dict[str, Any], path: str, target: Target) -> Part:
    if not target.images:
        raise Unsupported(
            f"`{path}`: this model sees no images",
            hint="Choose a model whose capabilities hold `vision`: `cerberus models ls`.",
        )
    path = f"{path}.source"
    source = expect.mapping(block.get("source"), path)
    kind = kind_of(source, path)
    if kind == "base64":
        media = expect.string(expect.required(source, "media_type", path), f"{path}.media_type")
        data = expect.string(expect.required(source, "data", path), f"{path}.data")
        url = f"data:{media};base64,{data}"
    elif kind == "url":
        url = expect.string(expect.required(source, "url", path), f"{path}.url")
    elif kind == "file":
        raise Unsupported(f"`{path}`: files by id are kept at Anthropic", hint="Send the image.")
    else:
        raise expect.wrong(f"{path}.type", '"base64" or "url"')
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: dict[str, Any], path: str, target: Target) -> list[Part]:
    place = f"{path}.source"
    source = expect.mapping(block.get("source"), place)
    kind = kind_of(source, place)
    if kind == "text":
        data = expect.string(expect.required(source, "data", place), f"{place}.data")
        inside = [text_part(data)]
    elif kind == "content":
        inside = _simple_parts(source.get("content"), f"{place}.content", target)
    else:
        raise Unsupported(
            f"`{place}.type`: a document must be text for this model, and this is {kind!r}",
            hint="Send its text, or its pages as images.",
        )
    head = [
        expect.string(block[key], f"{path}.{key}")
        for key in ("title", "context")
        if block.get(key) is not None
    ]
    return [text_part("\n".join(head)), *inside] if any(head) else inside


def _simple_parts(content: Any, path: str, target: Target) -> list[Part]:
    """Text and images alone: what a document may be made of."""
    if not isinstance(content, str):
        for place, block in blocks_of(content, path):
            if kind_of(block, place) not in ("text", "image"):
                raise expect.wrong(f"{place}.type", '"text" or "image"')
    return parts_of(content, path, target)


def _search_result(block: dict[str, Any], path: str) -> list[Part]:
    head = [
        expect.string(block[key], f"{path}.{key}")
        for key in ("title", "source")
        if block.get(key) is not None
    ]
    body = system_text(block.get("content", ""), f"{path}.content")
    return [text_part("\n".join([*head, body]))]
