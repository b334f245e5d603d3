"""One key set in or taken out of the text of a file: comments and order stay. Pure."""

import copy
import tomllib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import tomlkit

from cerberus_core.errors import ConfigError, NotFound

from .file import parse
from .rules import WrongValue
from .schema import Config
from .shape import Unknown
from .structure import dotted, nearest, structured, told

KeyPath = tuple[str, ...]
Schemas = Callable[[str], type | None]
"""The class that the plugin of a name reads its settings with; None where that isn't known."""
_LEAF = "leaf of a key path"


def key_path(key: str) -> KeyPath:
    """The parts of a dotted key as TOML writes it. Raises ConfigError."""
    hint = 'Write it like server.port or models."llamacpp/qwen".ttl_s.'
    try:
        if "\n" in key or "\r" in key:
            raise ValueError
        here: Any = tomllib.loads(f'{key} = "{_LEAF}"')
    except (ValueError, RecursionError):
        raise ConfigError(f"{key!r} is not a key", hint=hint) from None
    path = []
    while isinstance(here, dict) and len(here) == 1:
        name, here = next(iter(here.items()))
        path.append(name)
    if here != _LEAF or len(path) > 16:
        raise ConfigError(f"{key!r} is not a key", hint=hint)
    return tuple(path)


def with_value(old: str, path: KeyPath, value: Any, file: Path, schemas: Schemas) -> str:
    """`old` with the key set, checked as the loader will check it. Raises ConfigError."""
    wanted = copy.deepcopy(parse(old, file))
    here: Any = wanted
    for part in path[:-1]:
        here = here.setdefault(part, {})
        if not isinstance(here, dict):
            raise ConfigError(f"{file}: {dotted(path)} can't be set: {part} is not a table")
    here[path[-1]] = value
    for one in _check(wanted, path, file, schemas):
        if one.path == path[: len(one.path)]:
            raise ConfigError(
                f"unknown key {dotted(one.path)}{nearest(one)}",
                hint="`cerberus config show` lists the keys.",
            )
    return _whole(_edited(old, path, value), wanted, path, file)


def without(old: str, path: KeyPath, file: Path, schemas: Schemas) -> str:
    """`old` without the key. Raises NotFound, ConfigError."""
    before = parse(old, file)
    wanted = copy.deepcopy(before)
    here: Any = wanted
    for part in path[:-1]:
        here = here.get(part) if isinstance(here, dict) else None
    if not isinstance(here, dict) or path[-1] not in here:
        near = next((other for other in _paths(before, ()) if _close(path, other)), None)
        hint = (
            f"Did you mean {dotted(near)}?" if near else "`cerberus config show` says what is set."
        )
        raise NotFound(f"{dotted(path)} is not set in {file}", hint=hint)
    del here[path[-1]]
    try:
        _check(wanted, path, file, schemas)
    except ConfigError:
        if _is_good(before, path, file, schemas):
            raise
    return _whole(_cut(old, path), wanted, path, file)


def _close(path: KeyPath, other: KeyPath) -> bool:
    """Whether one is the other mistyped, and not its table or its neighbour."""
    return len(path) == len(other) and all(
        get_close_matches(part, [its]) for part, its in zip(path, other, strict=True)
    )


def _check(tables: dict[str, Any], path: KeyPath, file: Path, schemas: Schemas) -> list[Unknown]:
    """The unknown keys of the core, and of the plugin that `path` leads to. Raises ConfigError."""
    try:
        unknown = structured(tables, Config)[1]
        if path[0] == "plugins" and path[1] in tables["plugins"]:
            cls = schemas(path[1])
            if cls is not None:
                unknown += structured(tables["plugins"][path[1]], cls, path[:2])[1]
    except WrongValue as wrong:
        raise ConfigError(told(wrong), hint=_remedy(wrong, path, file)) from None
    return unknown


def _is_good(tables: dict[str, Any], path: KeyPath, file: Path, schemas: Schemas) -> bool:
    try:
        _check(tables, path, file, schemas)
    except ConfigError:
        return False
    return True


def _remedy(wrong: WrongValue, path: KeyPath, file: Path) -> str:
    if wrong.path[: len(path)] == path:
        return f"{file} is as it was."
    if wrong.value is None:
        return f"Set {dotted(wrong.path)} first."
    return f"Mend it in {file} first."


def _whole(new: str | None, wanted: dict[str, Any], path: KeyPath, file: Path) -> str:
    if new is None or not _same(new, wanted):
        raise ConfigError(
            f"{file}: {dotted(path)} can't be changed without changing other lines",
            hint=f"Edit {file} by hand.",
        )
    return new


def _paths(table: dict[str, Any], path: KeyPath) -> Iterator[KeyPath]:
    for key, value in table.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from _paths(value, (*path, key))


def _edited(old: str, path: KeyPath, value: Any) -> str | None:
    try:
        doc = tomlkit.parse(old)
        here: Any = doc
        for position, part in enumerate(path[:-1], start=2):
            if part not in here:
                here[part] = tomlkit.table(is_super_table=position < len(path))
            here = here[part]
        here[path[-1]] = value
        return tomlkit.dumps(doc)
    except Exception:  # noqa: BLE001 on odd files it raises all sorts; then nothing is written
        return None


def _cut(old: str, path: KeyPath) -> str | None:
    try:
        doc = tomlkit.parse(old)
        here: Any = doc
        for part in path[:-1]:
            here = here[part]
        del here[path[-1]]
        return tomlkit.dumps(doc)
    except Exception:  # noqa: BLE001 as above
        return None


def _same(text: str, wanted: dict[str, Any]) -> bool:
    try:
        # By repr, so that nan equals itself and 1 doesn't equal 1.0 or true.
        return _sorted(tomllib.loads(text)) == _sorted(wanted)
    except (ValueError, RecursionError):
        return False


def _sorted(value: Any) -> str:
    if isinstance(value, dict):
        # An empty table says nothing: the last key of one may take it along, and those around it.
        told = {key: _sorted(item) for key, item in sorted(value.items())}
        return "{" + ",".join(f"{key!r}:{item}" for key, item in told.items() if item != "{}") + "}"
    if isinstance(value, list):
        return "[" + ",".join(_sorted(item) for item in value) + "]"
    return repr(value)
