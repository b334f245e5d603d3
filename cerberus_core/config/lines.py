"""On which line of a TOML text a key stands, for error messages.

Neither TOML reader tells positions. Statements are independent of each other
though: each is cut out (it ends at the first line where it parses) and read by
itself.
"""

import tomllib
from collections.abc import Iterator
from typing import Any

_MAX_LINES = 20_000  # beyond that no line is told rather than a start delayed


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
