"""Tables to attrs instances by cattrs, strictly; errors with their key path.

`"1"` is no number, `true` is no number, a whole number is good for a float.
Converters of a plugin's class run, as do its validators.
"""

import pathlib
import re
import types
import typing
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, Union

import attrs
import cattrs
from cattrs.errors import AttributeValidationNote, IterableValidationNote

from cerberus_core.errors import ConfigError

from .overrides import source_at
from .rules import WrongValue
from .schema import Config
from .secrecy import is_secret, masked, redacted
from .shape import Unknown, shaped

T = TypeVar("T")

# What validators of attrs say.
_BOUND = re.compile(r"'\w+' must be (>=|<=|>|<) (\S+): .*")
_MUST_BE = re.compile(r"\w+ must be (an? .+|one .+)")
_AMONG = re.compile(r"'\w+' must be in ")
_COMPARED = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}

_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text in quotes",
    pathlib.Path: "a path in quotes",
    type(None): "nothing",
}


def structured(raw: Any, cls: type[T], prefix: tuple[str, ...] = ()) -> tuple[T, list[Unknown]]:
    """`raw` as `cls`, and the keys that `cls` doesn't know. Raises WrongValue."""
    unknown: list[Unknown] = []
    ready = shaped(raw, cls, prefix, unknown)
    try:
        return _converter().structure(ready, cls), unknown
    except Exception as error:  # noqa: BLE001 validators of plugins raise what they like
        raise _first(error, ready, prefix) from None


def plugin_settings(config: Config, name: str, cls: type[T], warn: Callable[[str], None]) -> T:
    """The settings of plugin `name` as the attrs class `cls`.

    Raises ConfigError with the key path for a wrong value; `warn` gets one
    line for each unknown key.
    """
    prefix = ("plugins", name)
    tree = {"plugins": config.plugins}
    try:
        settings, unknown = structured(config.plugins.get(name, {}), cls, prefix)
    except WrongValue as wrong:
        raise ConfigError(
            told(wrong, source_at(tree, wrong.path)),
            hint=f"Correct {dotted(wrong.path)} in the configuration.",
        ) from None
    for key in unknown:
        warn(unknown_text(key, source_at(tree, key.path)))
    return settings


def told(wrong: WrongValue, source: str | None = None) -> str:
    """`config.toml:3: server.port is "x" (text); expected …`; secrets aren't shown."""
    shown = _description(wrong.value, secret=is_secret(wrong.path))
    key = dotted(wrong.path)
    text = f"{key} is {shown}; expected {wrong.expected}" if key else f"expected {wrong.expected}"
    return f"{source}: {text}" if source else text


def unknown_text(unknown: Unknown, source: str | None = None) -> str:
    """One line that names the key and the nearest known one."""
    text = f"unknown key {dotted(unknown.path)}{nearest(unknown)}"
    return f"{source}: {text}" if source else text


def nearest(unknown: Unknown) -> str:
    close = get_close_matches(unknown.path[-1].lower(), unknown.known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {dotted((*unknown.path[:-1], close[0]))}?"
    return f"; known here: {', '.join(unknown.known)}" if unknown.known else ""


def dotted(path: tuple[str, ...]) -> str:
    """A key path as TOML writes it: `models."llamacpp/qwen".ttl_s`."""
    return ".".join(part if _is_bare(part) else _quoted(part) for part in path)


def _is_bare(part: str) -> bool:
    return part.isascii() and bool(part) and part.replace("_", "a").replace("-", "a").isalnum()


def _quoted(part: str) -> str:
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'


@cache
def _converter() -> cattrs.Converter:
    made = cattrs.Converter(detailed_validation=True)
    for kind in (int, float, bool, str):
        made.register_structure_hook(kind, _strict)
    made.register_structure_hook(pathlib.Path, _path)
    made.register_structure_hook_func(_is_choice, _choice)
    return made


def _strict(value: Any, kind: Any) -> Any:
    if type(value) is kind or (kind is str and isinstance(value, str)):
        return str(value) if kind is str else value
    if kind is float and type(value) is int and abs(value) <= 2**1000:
        return float(value)
    raise WrongValue((), value, _NAMES[kind])


def _path(value: Any, _kind: Any) -> pathlib.Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise WrongValue((), value, _NAMES[pathlib.Path])
    try:
        return pathlib.Path(value).expanduser()
    except RuntimeError:
        raise WrongValue((), value, "a path whose home folder is known") from None


def _is_choice(kind: Any) -> bool:
    """A union of plain kinds; cattrs knows none but `X | None`."""
    if typing.get_origin(kind) not in (Union, types.UnionType):
        return False
    members = typing.get_args(kind)
    return (
        all(member in _NAMES for member in members)
        and len([member for member in members if member is not type(None)]) > 1
    )


def _choice(value: Any, kind: Any) -> Any:
    members = typing.get_args(kind)
    if value is None and type(None) in members:
        return None
    # Exact types first, so that 5 stays a whole number in `float | int`.
    for member in sorted(members, key=lambda member: member is not type(value)):
        if member is not type(None):
            try:
                return (_path if member is pathlib.Path else _strict)(value, member)
            except WrongValue:
                continue
    names = [_NAMES[member] for member in members if member is not type(None)]
    raise WrongValue((), value, " or ".join(names))


def _first(error: BaseException, raw: Any, prefix: tuple[str, ...]) -> WrongValue:
    path, cause = next(_leaves(error, ()))
    if isinstance(cause, WrongValue):
        path = (*path, *cause.path)
        return WrongValue((*prefix, *path), _at(raw, path, cause.value), cause.expected)
    attribute = next((a for a in cause.args if isinstance(a, attrs.Attribute)), None)
    # Some validators of attrs hand over the field, others begin with its name alone.
    quoted = re.match(r"'?(\w+)'? ", str(cause.args[0])) if cause.args else None
    if attribute is not None:
        path = (*path, attribute.name)
    elif quoted and _at(raw, (*path, quoted[1]), None) is not None:
        path = (*path, quoted[1])
    message = cause.args[0] if attribute is not None and cause.args else cause
    text = redacted(f"{message}", raw) if not is_secret((*prefix, *path)) else "something else"
    return WrongValue((*prefix, *path), _at(raw, path, None), _expected(text, cause))


def _expected(text: str, cause: BaseException) -> str:
    """Words for what the validators of attrs and of plugins say."""
    bound = _BOUND.fullmatch(text)
    if bound:
        return f"a number {_COMPARED[bound[1]]} {bound[2]}"
    if _AMONG.match(text) and isinstance(cause.args[2], tuple | list):
        return f"one of {', '.join(str(option) for option in cause.args[2])}"
    must_be = _MUST_BE.fullmatch(text)
    if must_be:
        return must_be[1]
    return f"a good value ({text or type(cause).__name__})"


def _leaves(
    error: BaseException, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], BaseException]]:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            path = (*path, note.name)
        elif isinstance(note, IterableValidationNote):
            path = (*path, str(note.index))
    if isinstance(error, BaseExceptionGroup) and error.exceptions:
        for inner in error.exceptions:
            yield from _leaves(inner, path)
    else:
        yield path, error


def _at(raw: Any, path: tuple[str, ...], default: Any) -> Any:
    for part in path:
        if isinstance(raw, list) and part.isdigit() and int(part) < len(raw):
            raw = raw[int(part)]
        elif isinstance(raw, dict) and part in raw:
            raw = raw[part]
        else:
            return default
    return raw


def _description(value: Any, *, secret: bool) -> str:
    if value is None:
        return "missing"
    kind = (
        "true or false" if isinstance(value, bool)
        else "a number" if isinstance(value, int | float)
        else "text" if isinstance(value, str)
        else "a list" if isinstance(value, list | tuple)
        else "a table" if isinstance(value, dict)
        else type(value).__name__
    )  # fmt: skip
    if secret or isinstance(value, list | tuple | dict):
        return kind
    try:
        shown = str(masked(value))
    except ValueError:  # a number of thousands of digits
        return kind
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    if isinstance(value, bool):
        return shown.lower()
    return f"{_quoted(shown)} (text)" if isinstance(value, str) else shown
