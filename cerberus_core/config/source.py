"""Reading the file: text to plain tables, every failure with file and line."""

import re
import tomllib
from pathlib import Path
from typing import Any

from cerberus_core.errors import ConfigError

from .secrecy import looks_secret, masked

MAX_DEPTH = 32  # tables within tables; nobody needs more, and recursion has an end
_POSITION = re.compile(r" \(at line (\d+), column (\d+)\)$")
_KEY = re.compile(r"^\s*(?:\[|[\w.\"' -]+=)")


def read(file: Path) -> str | None:
    """The text, or None where there is no file. Raises ConfigError."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"{file}: can't be read: {error.strerror or error}", hint="check its owner and mode"
        ) from error
    try:
        # An editor's byte order mark is no part of the settings.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: not UTF-8 text", hint="save it as UTF-8") from error


def parse(text: str, file: Path) -> dict[str, Any]:
    """The tables of `text`; `file` is for messages. Raises ConfigError."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(text, file, str(error)) from error
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits, brackets of thousands of levels.
        raise ConfigError(f"{file}: not readable as TOML: {type(error).__name__}") from error
    if too_deep(tables):
        raise ConfigError(f"{file}: tables are nested more than {MAX_DEPTH} deep")
    return tables


def too_deep(tree: Any) -> bool:
    # A loop, since dotted keys nest without a limit while the parser doesn't recurse.
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for value in level
            for inner in (
                value.values()
                if isinstance(value, dict)
                else value
                if isinstance(value, list)
                else ()
            )
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _syntax(text: str, file: Path, problem: str) -> ConfigError:
    lines = text.split("\n")
    found = _POSITION.search(problem)
    if found:
        line, column = int(found[1]), int(found[2])
        problem = problem[: found.start()]
    else:
        line, column = max(1, text.rstrip("\n").count("\n") + 1), 0
        problem = problem.removesuffix(" (at end of document)") + " at the end of the file"
    message = f"{file}:{line}: not valid TOML: {problem}"
    if column and line <= len(lines):
        message += f" (column {column})" + _excerpt(lines, line, column)
    return ConfigError(message, hint=f"mend line {line} of {file}")


def _excerpt(lines: list[str], line: int, column: int) -> str:
    """The line with a mark below, unless it may hold a secret."""
    shown = lines[line - 1].rstrip("\r")
    above = line - 1
    while above > 0 and not _KEY.match(lines[above]):
        above -= 1  # within a value of several lines: its key decides
    header = next((row for row in reversed(lines[:line]) if row.lstrip().startswith("[")), "")
    if any(looks_secret(row) for row in (shown, lines[above].partition("=")[0], header)):
        return ""
    if not shown.isprintable() or len(shown) > 120 or masked(shown) != shown:
        return ""
    return f"\n  {shown}\n  {' ' * (column - 1)}^"
