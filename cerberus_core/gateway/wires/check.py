"""Reading a client's decoded JSON: the right type, or a `BadRequest` that says where."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cerberus_core.errors import BadRequest

_encode = msgspec.json.Encoder().encode


def wrong(path: str, expected: str) -> BadRequest:
    return BadRequest(f"`{path}` must be {expected}")


def an_object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise wrong(path, "an object")
    return value


def a_list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong(path, "a list")
    return value


def a_text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise wrong(path, "a string")
    return value


def a_name(value: Any, path: str) -> str:
    """A string that isn't empty."""
    if not isinstance(value, str) or not value:
        raise wrong(path, "a string that isn't empty")
    return value


def a_natural(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise wrong(path, "a whole number")
    return value


def a_number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(path, "a number")
    return value


def a_bool(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(path, "true or false")
    return value


def as_json(value: Any) -> str:
    try:
        return _encode(value).decode()
    except RecursionError:
        raise BadRequest("The request is nested too deeply") from None
