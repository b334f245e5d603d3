"""File and environment to one checked `Config`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from cerberus_core.errors import ConfigError
from cerberus_core.platform import Folders

from .file import MAX_DEPTH, line_of, parse, read, too_deep
from .overrides import overlay, source_at
from .rules import WrongValue
from .schema import Config
from .shape import Unknown
from .structure import dotted, structured, told, unknown_text

_NAMED = 10  # unknown keys with their lines, each of which is looked for


@attrs.frozen(kw_only=True)
class Loaded:
    """`sources` tells for each key that isn't a default (`server.port`) the file or variable."""

    config: Config
    warnings: list[str] = attrs.field(factory=list)
    sources: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Draft:
    """The text of a file that isn't in place yet; `file` is for messages."""

    file: str
    text: str = attrs.field(repr=False)


def load(
    folders: Folders, env: Mapping[str, str] | None = None, *, draft: Draft | None = None
) -> Loaded:
    """The settings in force. `env` are the variables to heed; None: the file alone.

    `draft`: what would be in force with it in the file's place.
    Raises ConfigError, with file and line or the variable's name, where a
    value is wrong. A missing file is no fault; an empty one is a warning.
    """
    file = folders.config_file if draft is None else Path(draft.file)
    text = read(file) if draft is None else draft.text
    tables = {} if text is None else parse(text, file)
    warnings = []
    if text is not None and not text.strip():
        warnings.append(f"{file}: is empty; the defaults are in force")
    sources = {dotted(path): str(file) for path in _leaves(tables, ())}
    for path, name in overlay(tables, env or {}).items():
        sources[dotted(path)] = name
    if too_deep(tables):
        raise ConfigError(f"environment: tables are nested more than {MAX_DEPTH} deep")
    config, unknown = checked(tables, file, text or "")
    for key in unknown[:_NAMED]:
        place = source_at(tables, key.path) or _place(key.path, file, text or "")
        warnings.append(unknown_text(key, place))
    if len(unknown) > _NAMED:
        warnings.append(f"{file}: {len(unknown) - _NAMED} more unknown keys")
    return Loaded(config=config, warnings=warnings, sources=sources)


def checked(tables: dict[str, Any], file: Path, text: str) -> tuple[Config, list[Unknown]]:
    """`tables` as a Config; `file` and `text` are for messages. Raises ConfigError."""
    try:
        return structured(tables, Config)
    except WrongValue as wrong:
        variable = source_at(tables, wrong.path)
        raise ConfigError(
            told(wrong, variable or _place(wrong.path, file, text)),
            hint=f"Correct or unset {variable}"
            if variable
            else f"Correct {dotted(wrong.path)} in {file}",
        ) from None


def _place(path: tuple[str, ...], file: Path, text: str) -> str:
    line = line_of(text, path)
    return f"{file}:{line}" if line else str(file)


def _leaves(table: dict[str, Any], path: tuple[str, ...]) -> list[tuple[str, ...]]:
    found = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _leaves(value, (*path, key))
        else:
            found.append((*path, key))
    return found
