"""Tools as Responses declares them, made into the functions of Chat Completions. Pure.

* A `function` is one already. One of a `namespace` carries that in its name.
* A `custom` tool takes free text: a function with the one argument `input`.
* `local_shell` is a function with a command.
* What only a provider can run is left out where it's an extra that agents send
  unasked (web search), and refused where the answer would lack what was asked for.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import attrs

from cerberus_core.errors import Unsupported

from .check import a_list, a_name, an_object, wrong

MAX_NAME = 64
"""Characters of a function's name."""
LOCAL_SHELL = "local_shell"
_NO_PARAMETERS = {"type": "object", "properties": {}}
_LEFT_OUT = ("web_search", "image_generation", "tool_search")


@attrs.frozen
class Origin:
    """What the client declared a function as."""

    kind: str
    """`function`, `custom` or `local_shell`."""
    name: str
    namespace: str | None = None


@attrs.frozen
class Tools:
    functions: list[dict[str, Any]]
    """`tools` of the chat request."""
    origins: dict[str, Origin]
    """By the function's name."""


def read_tools(value: Any) -> Tools:
    """Raises `BadRequest`, `Unsupported`."""
    tools = Tools([], {})
    for index, tool in enumerate(a_list([] if value is None else value, "tools")):
        _read(tool, f"tools[{index}]", None, tools)
    return tools


def name_in_chat(name: str, namespace: str | None) -> str:
    """The function's name, with its namespace, in `MAX_NAME` characters."""
    if not namespace:
        return name
    whole = f"{namespace}__{name}"
    if len(whole) <= MAX_NAME:
        return whole
    return f"{whole[: MAX_NAME - 9]}_{zlib.crc32(whole.encode('utf-8', 'replace')):08x}"


def read_choice(value: Any, tools: Tools) -> tuple[list[dict[str, Any]], Any]:
    """(the functions that may be called, `tool_choice`). Raises `BadRequest`, `Unsupported`."""
    if value is None or isinstance(value, str):
        if value not in (None, "auto", "none", "required"):
            raise wrong("tool_choice", '"auto", "none", "required" or an object')
        if value == "required" and not tools.functions:
            raise _nothing_to_call("tool_choice")
        return tools.functions, value
    choice = an_object(value, "tool_choice")
    kind = choice.get("type")
    if kind == "allowed_tools":
        mode = choice.get("mode", "auto")
        if mode not in ("auto", "required"):
            raise wrong("tool_choice.mode", '"auto" or "required"')
        path = "tool_choice.tools"
        names = {
            name
            for index, tool in enumerate(a_list(choice.get("tools"), path))
            if (name := _chosen(an_object(tool, f"{path}[{index}]"), f"{path}[{index}]"))
        }
        allowed = [tool for tool in tools.functions if tool["function"]["name"] in names]
        if mode == "required" and not allowed:
            raise _nothing_to_call(path)
        return allowed, mode
    name = _chosen(choice, "tool_choice")
    if name is None:
        raise Unsupported(
            f"`tool_choice` asks for {kind!r}, which only its provider can run",
            code="unsupported_tool",
        )
    return tools.functions, {"type": "function", "function": {"name": name}}


def _nothing_to_call(path: str) -> Unsupported:
    return Unsupported(
        f"`{path}` demands a call, and none of the tools can be called here",
        code="unsupported_tool",
    )


def _chosen(choice: Mapping[str, Any], path: str) -> str | None:
    """The name of the function that a choice means; None for what isn't one."""
    if choice.get("type") == LOCAL_SHELL:
        return LOCAL_SHELL
    if choice.get("type") not in ("function", "custom"):
        return None
    namespace = choice.get("namespace")
    return name_in_chat(
        a_name(choice.get("name"), f"{path}.name"),
        namespace if isinstance(namespace, str) else None,
    )


def _read(value: Any, path: str, namespace: str | None, tools: Tools) -> None:
    tool = an_object(value, path)
    kind = a_name(tool.get("type"), f"{path}.type")
    if kind == "namespace" and namespace is None:
        inner = a_name(tool.get("name"), f"{path}.name")
        for index, each in enumerate(a_list(tool.get("tools"), f"{path}.tools")):
            _read(each, f"{path}.tools[{index}]", inner, tools)
    elif kind == "function":
        name = a_name(tool.get("name"), f"{path}.name")
        parameters = tool.get("parameters")
        if parameters is not None:
            an_object(parameters, f"{path}.parameters")
        _add(tools, Origin("function", name, namespace), tool, parameters or _NO_PARAMETERS)
    elif kind == "custom":
        name = a_name(tool.get("name"), f"{path}.name")
        _add(tools, Origin("custom", name, namespace), tool, _FREE_TEXT, _grammar(tool))
    elif kind == LOCAL_SHELL:
        _add(tools, Origin(LOCAL_SHELL, LOCAL_SHELL), {"description": _SHELL}, _COMMAND)
    elif not kind.startswith(_LEFT_OUT):
        raise Unsupported(
            f"`{path}` is of the type {kind!r}, which only its provider can run",
            hint="Leave it out, or ask a model of that provider.",
            code="unsupported_tool",
        )


def _add(
    tools: Tools, origin: Origin, tool: Mapping[str, Any], parameters: Any, more: str = ""
) -> None:
    name = name_in_chat(origin.name, origin.namespace)
    function: dict[str, Any] = {"name": name}
    description = tool.get("description")
    if isinstance(description, str) and description + more:
        function["description"] = description + more
    elif more:
        function["description"] = more.lstrip()
    function["parameters"] = parameters
    if isinstance(tool.get("strict"), bool):
        function["strict"] = tool["strict"]
    tools.functions.append({"type": "function", "function": function})
    tools.origins[name] = origin


def _grammar(tool: Mapping[str, Any]) -> str:
    """What the description must say of the input's form; nobody enforces it here."""
    form = tool.get("format")
    if not isinstance(form, Mapping) or form.get("type") != "grammar":
        return ""
    return f"\n\n`input` must follow this {form.get('syntax')} grammar:\n{form.get('definition')}"


_FREE_TEXT = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The tool's whole input."}},
    "required": ["input"],
    "additionalProperties": False,
}
_SHELL = "Runs a command on the user's machine and returns its output."
_COMMAND = {
    "type": "object",
    "properties": {
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The program and its arguments.",
        },
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
    },
    "required": ["command"],
}
