"""What a client's JSON has to be; who isn't is told by its path. Pure."""

from collections.abc import Mapping
from typing import Any

from cerberus_core.errors import BadRequest


def required(fields: Mapping[str, Any], key: str, path: str) -> Any:
    """The member `key` of what stands at `path` ("" is the top)."""
    value = fields.get(key)
    if value is None:
        raise BadRequest(f"`{below(path, key)}` is missing")
    return value


def below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise wrong(path, "a string")
    return value


def number(value: Any, path: str) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong(path, "a number")
    return value


def natural(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise wrong(path, "a whole number, 0 or more")
    return value


def flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(path, "true or false")
    return value


def mapping(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(path, "an object")
    return value


def items(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong(path, "a list")
    return value


def wrong(path: str, expected: str) -> BadRequest:
    return BadRequest(f"`{path}` must be {expected}")
