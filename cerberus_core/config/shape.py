"""Raw tables against the classes that describe them, before cattrs sees them.

Finds unknown keys, missing keys and things that are no table or list where one
belongs (cattrs takes a text for a list of letters), and gives texts from the
environment the type of their field.
"""

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, Union

import attrs

from .overrides import EnvText, parsed, parsed_bool
from .rules import WrongValue

_LISTS = (list, tuple, set, frozenset, Sequence, AbstractSet, Iterable)
_TABLES = (dict, Mapping)
_NOTHING = type(None)


class Unknown(typing.NamedTuple):
    """A key that the class at `path[:-1]` doesn't have, and those that it has."""

    path: tuple[str, ...]
    known: tuple[str, ...]


def shaped(value: Any, kind: Any, path: tuple[str, ...], unknown: list[Unknown]) -> Any:
    """`value` ready to be structured as `kind`. Raises WrongValue."""
    kind, origin = _bare(kind)
    if attrs.has(origin):
        return _fields(_table(value, path), kind, path, unknown)
    if origin in _TABLES:
        inner = (typing.get_args(kind) or (str, Any))[1]
        return {
            str(key): shaped(item, inner, (*path, str(key)), unknown)
            for key, item in _table(value, path).items()
        }
    if origin in _LISTS:
        inner = (typing.get_args(kind) or (Any,))[0]
        return [
            shaped(item, inner, (*path, str(index)), unknown)
            for index, item in enumerate(_list(value, path))
        ]
    if isinstance(value, EnvText):
        return _typed(value, kind, path)
    return value


def _bare(kind: Any) -> tuple[Any, Any]:
    """Without `| None` and Annotated; with what it is made of (list of list[str])."""
    while True:
        origin = typing.get_origin(kind)
        if origin in (Union, types.UnionType):
            others = [member for member in typing.get_args(kind) if member is not _NOTHING]
            if len(others) != 1:
                return kind, Union
            kind = others[0]
        elif origin is typing.Annotated:
            kind = typing.get_args(kind)[0]
        else:
            return kind, origin or kind


def _fields(
    table: Mapping[str, Any], cls: type, path: tuple[str, ...], unknown: list[Unknown]
) -> dict[str, Any]:
    cls = attrs.resolve_types(cls)
    fields = {field.name: field for field in attrs.fields(cls) if field.init}
    out = {}
    for key, item in table.items():
        if key in fields:
            out[key] = shaped(item, fields[key].type, (*path, key), unknown)
        else:
            unknown.append(Unknown((*path, key), tuple(fields)))
    for name, field in fields.items():
        if name not in out and field.default is attrs.NOTHING:
            raise WrongValue((*path, name), None, "a value, it has no default")
    return out


def _table(value: Any, path: tuple[str, ...]) -> Mapping[str, Any]:
    found = _opened(value)
    if not isinstance(found, Mapping):
        raise WrongValue(path, value, "a table")
    return found


def _list(value: Any, path: tuple[str, ...]) -> list[Any]:
    found = _opened(value)
    if not isinstance(found, list):
        raise WrongValue(path, value, 'a list, such as ["one", "two"]')
    return found


def _opened(value: Any) -> Any:
    if not isinstance(value, EnvText):
        return value
    try:
        return parsed(value)
    except ValueError:
        return value


def _typed(text: EnvText, kind: Any, path: tuple[str, ...]) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongValue(path, text, "UTF-8 text") from None
    kinds = (
        typing.get_args(kind) if typing.get_origin(kind) in (Union, types.UnionType) else (kind,)
    )
    if bool in kinds:
        answer = parsed_bool(text)
        if answer is not None:
            return answer
    if any(one in (int, float, bool) or typing.get_origin(one) is Literal for one in kinds):
        try:
            value = parsed(text)
        except ValueError:
            return text
        if type(value) in kinds or (type(value) is int and float in kinds):
            return value
        if _among(value, kinds):
            return value
    return text


def _among(value: Any, kinds: Iterable[Any]) -> bool:
    choices = [
        choice
        for kind in kinds
        if typing.get_origin(kind) is Literal
        for choice in typing.get_args(kind)
    ]
    return any(type(choice) is type(value) and choice == value for choice in choices)
