"""The daemon's log: lines on stderr, secrets taken out."""

import atexit
import contextlib
import logging
import re
import sys
from typing import Any

import structlog

from .log_stream import LogStream

_SECRET_KEY = re.compile(r"token|api[_-]?key|authorization|password|secret|cookie", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer)\s+[A-Za-z0-9._~+/=-]{6,}")


def set_up() -> None:
    """Everything at INFO and above goes to stderr, one line each, and nobody waits for it."""
    _never_wait_for_stderr()
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
        logger_factory=structlog.WriteLoggerFactory(_Stderr()),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )


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


def redact(_: Any, __: str, event: Any) -> Any:
    """Drop the values of secret keys, and bearer tokens inside any text, however deep."""
    return _without_secrets(event)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "[removed]" if _SECRET_KEY.search(str(key)) else _without_secrets(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(inner) for inner in value]
    return _BEARER.sub(r"\1 [removed]", value) if isinstance(value, str) else value
