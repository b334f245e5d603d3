"""Errors over HTTP: the status of each, for the admin API too, and OpenAI's shape."""

from typing import Any

import msgspec

from cerberus_core import errors
from cerberus_core.errors import CerberusError

from .sink import Header
from .upstream_errors import KeptStatus

_encode = msgspec.json.Encoder().encode

JSON_TYPE: Header = (b"content-type", b"application/json")

_STATUS: list[tuple[type[CerberusError], int, str]] = [
    (errors.AccessDenied, 401, "authentication_error"),
    (errors.Forbidden, 403, "permission_error"),
    (errors.LimitReached, 429, "rate_limit_error"),
    (errors.BadRequest, 400, "invalid_request_error"),
    (errors.ConfigError, 400, "invalid_request_error"),
    (errors.NotFound, 404, "invalid_request_error"),
    (errors.Unsupported, 400, "invalid_request_error"),
    (errors.AlreadyRunning, 409, "invalid_request_error"),
    (errors.UpstreamFailed, 502, "upstream_error"),
    (errors.EngineLost, 502, "engine_error"),
    (errors.Overloaded, 429, "rate_limit_error"),
    (errors.Unavailable, 503, "unavailable_error"),
]


def status_of(error: CerberusError) -> int:
    """The HTTP status that tells this error."""
    if isinstance(error, KeptStatus):
        return error.status
    return next((status for kind, status, _ in _STATUS if isinstance(error, kind)), 500)


def error_value(error: CerberusError, **extra: Any) -> dict[str, Any]:
    """The `error` object of OpenAI's shape, with our `hint`."""
    kind = next((kind for cls, _, kind in _STATUS if isinstance(error, cls)), "server_error")
    return {
        "message": error.message,
        "type": kind,
        "code": error.code,
        "param": None,
        "hint": error.hint,
        **extra,
    }


def error_body(error: CerberusError) -> bytes:
    return _encode({"error": error_value(error)})


def error_event(value: dict[str, Any]) -> bytes:
    """An error as the last event of a stream; no `[DONE]` follows it."""
    return b"data: " + _encode({"error": value}) + b"\n\n"
