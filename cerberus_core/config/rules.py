"""Validators of the schema, and the one exception that they raise.

Not converters: not every decoder runs those.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import attrs

_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9_.:\[\]-]+")
"""As browsers send it; programs made of a page have schemes of their own."""
Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


class WrongValue(Exception):
    """`value` at `path` is not what was `expected` (words that follow "expected")."""

    def __init__(self, path: tuple[str, ...], value: object, expected: str) -> None:
        super().__init__(f"{'.'.join(path)}: expected {expected}")
        self.path = path
        self.value = value
        self.expected = expected


def rule(expected: str, good: Callable[[Any], bool]) -> Validator:
    """A validator that lets None pass (the type says whether None is allowed)."""

    def check(_instance: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if value is not None and not good(value):
            raise WrongValue((attribute.name,), value, expected)

    return check


def port() -> Validator:
    return rule("a port from 0 to 65535 (0: any free one)", lambda v: 0 <= v <= 65535)


def seconds(*, zero: str | None = None, least: float | None = None) -> Validator:
    """From `least`, or 0 where `zero` says what it means, or else more than 0 seconds."""
    if least is not None:
        return rule(
            f"a number of seconds from {least:g}", lambda v: math.isfinite(v) and v >= least
        )
    if zero is None:
        return rule("a number of seconds above 0", lambda v: math.isfinite(v) and v > 0)
    return rule(f"a number of seconds, 0 for {zero}", lambda v: math.isfinite(v) and v >= 0)


def price() -> Validator:
    return rule("a price, 0 or more", lambda v: math.isfinite(v) and v >= 0)


def count(least: int = 1) -> Validator:
    # Above 2**53 a number doesn't survive JSON in a browser.
    return rule(f"a whole number from {least}", lambda v: least <= v <= 2**53)


def word(what: str) -> Validator:
    """Text without white space or control characters, and not empty."""
    return rule(what, _is_word)


def words(what: str) -> Validator:
    return rule(what, lambda values: all(_is_word(value) for value in values))


def token() -> Validator:
    # It travels in an HTTP header.
    return rule("printable ASCII without spaces, not empty", lambda v: _is_word(v) and v.isascii())


def url() -> Validator:
    return rule(
        "an address that begins with http:// or https://",
        lambda v: _is_word(v) and v.startswith(("http://", "https://")) and len(v) > 8,
    )


def text(what: str) -> Validator:
    return rule(what, lambda value: bool(value) and "\0" not in value)


def texts(what: str) -> Validator:
    return rule(what, lambda values: all(value and "\0" not in value for value in values))


def one_of(*choices: str) -> Validator:
    return rule(f"one of {', '.join(choices)}", choices.__contains__)


def shares() -> Validator:
    return rule(
        "a list of shares, 0 or more and not all 0, such as [3, 1]",
        lambda values: all(math.isfinite(v) and v >= 0 for v in values) and any(values),
    )


FIXED = frozenset(
    {"model", "messages", "prompt", "input", "query", "documents", "stream", "stream_options"}
)
"""Of a request: what it is, and how it is answered."""


def parameters() -> Validator:
    return rule(
        "parameters of a request, such as {temperature = 0.2}; none of " + ", ".join(sorted(FIXED)),
        lambda values: not FIXED & values.keys() and _is_json(values),
    )


def host_names() -> Validator:
    return rule(
        "a list of host names, without http:// and without a path",
        lambda values: all(_is_word(value) and "/" not in value for value in values),
    )


def origins() -> Validator:
    return rule(
        'a list of origins without a path, such as ["http://localhost:3000"]',
        lambda values: all(_ORIGIN.fullmatch(value) for value in values),
    )


def _is_json(value: Any) -> bool:
    """TOML has times and infinities, which JSON has not."""
    if isinstance(value, dict):
        return all(_is_json(each) for each in value.values())
    if isinstance(value, list):
        return all(_is_json(each) for each in value)
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _is_word(value: str) -> bool:
    return bool(value) and value.isprintable() and not any(c.isspace() for c in value)
