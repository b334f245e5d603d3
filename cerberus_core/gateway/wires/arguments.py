"""The arguments of a tool call: an object to some wires, JSON in a string to others.

A model may write what is no JSON object, and the client gives it back with the
history at every turn. It is wrapped, so that no target refuses the whole session.
"""

from typing import Any

import msgspec

from .check import as_json

_decode = msgspec.json.Decoder().decode
RAW = "arguments"
"""The only key of a wrapped one; its value is what the model wrote."""


def as_object(arguments: Any) -> dict[str, Any]:
    """Of a string or a value; empty and null mean no arguments."""
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        try:
            value = _decode(arguments)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return {RAW: arguments}
        if value is None:
            return {}
        return value if isinstance(value, dict) else {RAW: arguments}
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, dict) else {RAW: arguments}


def as_text(arguments: Any) -> str:
    """A JSON object in a string; one that is right already keeps its very characters."""
    value = as_object(arguments)
    if isinstance(arguments, str) and arguments.lstrip().startswith("{") and not _wrapped(value):
        return arguments
    return as_json(value)


def are_whole(arguments: str) -> bool:
    """Whether it is a JSON object: an answer that was cut off may hold half of one."""
    try:
        return isinstance(_decode(arguments), dict)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def _wrapped(value: dict[str, Any]) -> bool:
    return set(value) == {RAW} and isinstance(value[RAW], str)
