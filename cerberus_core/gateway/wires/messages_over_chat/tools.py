"""Tool definitions and the choice among them. Pure."""

from collections.abc import Mapping
from typing import Any

from cerberus_core.errors import Unsupported
from cerberus_core.gateway.wires import expect

from .content import kind_of
from .target import Target

SEARCHES = ("tool_search_tool_bm25", "tool_search_tool_regex")
"""They find tools that are shown later; a chat backend is shown all of them at once."""


def chat_tools(fields: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """`tools`, `tool_choice` and `parallel_tool_calls`; empty where no tool is offered."""
    given = fields.get("tools")
    tools = []
    for index, value in enumerate([] if given is None else expect.items(given, "tools")):
        path = f"tools[{index}]"
        tool = expect.mapping(value, path)
        kind = tool.get("type")
        if isinstance(kind, str) and kind.startswith(SEARCHES):
            continue
        if kind not in (None, "custom"):
            kind = expect.string(kind, f"{path}.type")
            raise Unsupported(
                f"`{path}`: {kind!r} is a tool that Anthropic runs or knows, this model doesn't",
                hint="Leave it out, or give it as a tool of your own with an `input_schema`.",
            )
        tools.append(_tool(tool, path))
    choice, parallel = _choice(fields.get("tool_choice"))
    if not tools:
        return {}
    out: dict[str, Any] = {"tools": tools}
    if choice is not None:
        out["tool_choice"] = choice
    if not parallel:
        out["parallel_tool_calls"] = False
    elif not target.strict:
        out["parallel_tool_calls"] = True  # llama.cpp allows one at a time unless asked
    return out


def _tool(tool: dict[str, Any], path: str) -> dict[str, Any]:
    name = expect.string(expect.required(tool, "name", path), f"{path}.name")
    schema = expect.mapping(expect.required(tool, "input_schema", path), f"{path}.input_schema")
    function: dict[str, Any] = {"name": name}
    if tool.get("description") is not None:
        function["description"] = expect.string(tool["description"], f"{path}.description")
    function["parameters"] = schema
    if tool.get("strict") is not None:
        function["strict"] = expect.flag(tool["strict"], f"{path}.strict")
    return {"type": "function", "function": function}


def _choice(value: Any) -> tuple[Any, bool]:
    """(chat's `tool_choice` or None, whether several calls at once are welcome)."""
    if value is None:
        return None, True
    path = "tool_choice"
    choice = expect.mapping(value, path)
    kind = kind_of(choice, path)
    alone = choice.get("disable_parallel_tool_use")
    parallel = alone is None or not expect.flag(alone, f"{path}.disable_parallel_tool_use")
    if kind == "tool":
        name = expect.string(expect.required(choice, "name", path), f"{path}.name")
        return {"type": "function", "function": {"name": name}}, parallel
    known = {"auto": "auto", "any": "required", "none": "none"}
    if kind not in known:
        raise expect.wrong(f"{path}.type", '"auto", "any", "tool" or "none"')
    return known[kind], parallel
