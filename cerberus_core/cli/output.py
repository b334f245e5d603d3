"""What a person reads. Light: no rich here."""

import json
import re
import sys
from typing import Annotated, Any

import typer

from cerberus_core.errors import CerberusError, ConfigError, DaemonUnreachable, NotFound

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


# Controls (but line ends and tabs), what turns the direction of text, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """`text` with a mark for everything that would move a terminal instead of showing."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def say(text: str = "") -> None:
    """A line on stdout, at once: what reads a pipe must not wait for a buffer to fill."""
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
    sys.stdout.flush()


def warn(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(printable(text) + "\n")


def figure(value: float) -> str:
    """A measured number in a few digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def show_error(error: CerberusError, *, as_json: bool) -> int:
    """Tell the error on stderr; its exit code."""
    from .typed import typed

    message, hint = typed(error.message), typed(error.hint) if error.hint else None
    if as_json:
        value = {"code": error.code, "message": message, "hint": hint}
        warn(json.dumps({"error": value}, ensure_ascii=False))
    else:
        warn(f"Error: {message}")
        if hint:
            warn(f"  {hint}")
    return exit_code(error)


def exit_code(error: CerberusError) -> int:
    if isinstance(error, DaemonUnreachable):
        return 3
    if isinstance(error, NotFound):
        return 4
    if isinstance(error, ConfigError) or error.code in ("bad_request", "usage"):
        return 2
    return 1
