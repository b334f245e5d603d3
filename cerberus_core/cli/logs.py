"""The daemon's log: lines on stderr, secrets taken out."""

import atexit
import contextlib
import logging
import re
import sys
from typing import Any

import structlog

from cerberus_core.config.secrecy import shows

from .log_stream import LogStream

_BEARER = re.compile(r"(?i)\b(bearer)\s+[A-Za-z0-9._~+/=-]{6,}")
_KEY = re.compile(r"\b(ck-[a-z0-9]+)-[\w-]{20,}")


def set_up() -> "Held":
    """Everything at INFO and above goes to stderr, one line each, once it is let go.

    Nobody waits for whoever reads it.
    """
    _never_wait_for_stderr()
    held = Held()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(name)s: %(message)s")
    # Answers that a stop cuts off are told to their clients and in their records.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: not str(record.msg).startswith("Cancel %s running task")
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.format_exc_info,
            redact,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(held),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
    return held


def _never_wait_for_stderr() -> None:
    try:
        sys.stderr.flush()
        stream = LogStream(sys.stderr.fileno(), encoding=sys.stderr.encoding)
    except (AttributeError, OSError, ValueError):  # there is none, or it is no file
        return
    sys.stderr = stream
    atexit.register(stream.finish)


class _Stderr:
    """A log that nobody reads any more (its pipe is closed) is no reason to fail."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


class Held(_Stderr):
    """Keeps the lines until `let_go`: in a terminal the greeting stands first."""

    def __init__(self) -> None:
        self._lines: list[str] | None = [] if sys.stderr.isatty() else None

    def write(self, text: str) -> None:
        if self._lines is None:
            super().write(text)
        else:
            self._lines.append(text)

    def let_go(self) -> None:
        """What was kept, and all that follows, goes out."""
        lines, self._lines = self._lines or [], None
        super().write("".join(lines))


def redact(_: Any, __: str, event: Any) -> Any:
    """Drop the values of secret keys, and bearer tokens and keys inside any text, however deep."""
    return _without_secrets(event)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_secrets(inner) if shows(key, inner) else "[removed]"
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(inner) for inner in value]
    if isinstance(value, str):
        return _KEY.sub(r"\1-[removed]", _BEARER.sub(r"\1 [removed]", value))
    return value
