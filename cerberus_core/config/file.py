"""The file: its text as plain tables, and on which line of it a key stands.

Neither TOML reader tells positions, and messages name the line. Statements are
independent of each other though: each is cut out (it ends at the first line
where it parses) and read by itself.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cerberus_core.errors import ConfigError
from cerberus_core.platform.files import read_regular

from .quick import MAX_BYTES
from .secrecy import looks_secret, masked

MAX_DEPTH = 32  # tables within tables; nobody needs more, and recursion has an end
_POSITION = re.compile(r" \(at line (\d+), column (\d+)\)$")
_KEY = re.compile(r"^\s*(?:\[|[\w.\"' -]+=)")
_MAX_LINES = 20_000  # beyond that no line is told rather than a start delayed


def read(file: Path) -> str | None:
    """The text, or None where there is no file. Blocking. Raises ConfigError."""
    try:
        data = read_regular(file, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"{file}: can't be read: {error.strerror or error}",
            hint="It is a text file of yours, or a link to one. Check what it is, and its mode.",
        ) from error
    return decoded(data, file)


def decoded(data: bytes, file: Path) -> str:
    """`data` as text; `file` is for messages. Raises ConfigError."""
    try:
        # An editor's byte order mark is no part of the settings.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: not UTF-8 text", hint="Save it as UTF-8.") from error


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
    return ConfigError(message, hint=f"Mend line {line} of {file}")


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


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line (from 1) where the statement for `path`, or for what holds it, begins."""
    best: tuple[int, int] | None = None  # keys in common, line
    header: tuple[str, ...] = ()
    for line, is_header, doc in _statements(text):
        keys = _chain(doc)
        if is_header:
            header = keys
            found = _common(keys, path)
        else:
            found = _common(header, path)
            if found == len(header):
                found += _deepest(doc, path[found:])
        if found and (best is None or found > best[0]):
            best = (found, line)
    return best[1] if best else None


def _statements(text: str) -> Iterator[tuple[int, bool, dict[str, Any]]]:
    """Line, whether it is a `[header]`, and what the statement says."""
    # TOML ends lines at LF and CRLF only; splitlines knows many more.
    lines = text.split("\n")[:_MAX_LINES]
    start = 0
    while start < len(lines):
        end = start + 1
        while end <= len(lines):
            doc = _parsed("\n".join(lines[start:end]))
            if doc is not None:
                break
            end += 1
        else:
            return
        if doc:
            yield start + 1, lines[start].lstrip().startswith("["), doc
        start = end


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _chain(doc: Any) -> tuple[str, ...]:
    keys = []
    while isinstance(doc, dict | list) and len(doc) == 1:
        if isinstance(doc, list):
            doc = doc[0]
            continue
        key, doc = next(iter(doc.items()))
        keys.append(key)
    return tuple(keys)


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _deepest(doc: Any, path: tuple[str, ...]) -> int:
    count = 0
    for key in path:
        if not isinstance(doc, dict) or key not in doc:
            break
        doc = doc[key]
        count += 1
    return count
