"""What an endpoint's refusal means for the client. Pure."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from cerberus_core.errors import CerberusError, UpstreamFailed
from cerberus_core.values import ModelInfo

from . import quota
from .sink import Header

Explain = Callable[[int, bytes], CerberusError | None]
"""`Lease.explain`: what the backend makes of a refusal's status and body."""


_OVERFLOW = re.compile(
    r"context (?:length|size|window)|prompt is too long|maximum context|too many tokens", re.I
)
_USED_UP = ("insufficient_quota", "billing_hard_limit_reached", "billing_error")


class Refused(UpstreamFailed):
    """The endpoint refused; `headers` are what it says of its limits, word for word."""

    code = "upstream_refused"
    headers: Sequence[Header] = ()


class KeptStatus(Refused):
    """The client is told the endpoint's own status, and its very words where it has `body`."""

    body: bytes | None = None
    overflow = False
    """The request is longer than the model's context."""
    used_up = False
    """Nothing is left of what was paid for: that doesn't renew by itself."""

    def __init__(self, message: str, status: int, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


def refusal(
    status: int,
    headers: Mapping[str, str],
    data: bytes,
    model: ModelInfo,
    explain: Explain,
    now: datetime,
) -> CerberusError:
    """The error that tells it.

    A refusal in OpenAI's shape passes as it came, unless the backend knows better
    what it means. A key that was refused and a redirect are the operator's to mend, not
    the client's: they become a 502.
    """
    if status in (401, 403):
        return Refused(
            f"{model.backend} refused Cerberus's key for it ({status})",
            hint=f"Check `api_key` of the endpoint {model.backend!r} in config.toml.",
        )
    if 300 <= status < 400:
        return Refused(
            f"{model.backend} answered with a redirect ({status}), which is not followed",
            hint="Set its `base_url` to the final address.",
        )
    if not 400 <= status < 600:
        return Refused(f"{model.id} answered with the status {status}, which HTTP has not")
    known = explain(status, data)
    if known is not None:
        return known
    told = _told(data)
    if told is None:
        error = KeptStatus(f"{model.id} answered {status}: {excerpt(data)}", status)
    else:
        error = KeptStatus(told["message"], status)
        error.body = data
        error.overflow = status in (400, 413) and _is_overflow(told)
        error.used_up = told.get("code") in _USED_UP or told.get("type") in _USED_UP
    error.headers = quota.passed_on(headers)
    wait_s = quota.wait_s(headers, now)
    if wait_s:
        error.retry_after_s = math.ceil(wait_s)
        error.message += (
            f" (ask again after {now + timedelta(seconds=wait_s):%Y-%m-%d %H:%M:%S} UTC)"
        )
    return error


def _told(data: bytes) -> dict[str, Any] | None:
    """The `error` object of a body in OpenAI's shape, or Anthropic's."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) and isinstance(error.get("message"), str) else None


def _is_overflow(error: dict[str, Any]) -> bool:
    names = {"context_length_exceeded", "exceed_context_size_error"}
    return (
        error.get("code") in names
        or error.get("type") in names
        or bool(_OVERFLOW.search(error["message"]))
    )


def excerpt(data: bytes) -> str:
    """The first words of a body, without HTML tags, for an error message."""
    text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", data[:4000].decode(errors="replace"))
    text = " ".join(text.split())
    return text[:200] + ("…" if len(text) > 200 else "") if text else "an empty body"


def message_of(payload: bytes) -> str:
    """The words of an `error` value that came inside a good answer."""
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, RecursionError):
        return excerpt(payload)
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        return str(value["message"])
    return value if isinstance(value, str) else excerpt(payload)
