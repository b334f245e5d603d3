"""A whole JSON answer on its way through. Pure."""

from typing import Any

import msgspec
from msgspec import Raw

from .facts import Facts

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


class NotJson(Exception):
    """A good status with a body that is no JSON object."""


def read(body: bytes, facts: Facts) -> dict[str, Raw]:
    """Take the top level apart and meter it. Raises `NotJson`."""
    try:
        body.decode()
        fields = _decode_fields(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotJson from None
    usage = fields.get("usage")
    if usage is not None and bytes(usage) != b"null":
        facts.take_usage(usage)
    timings = fields.get("timings")
    if timings is not None:
        facts.take_timings(timings)
    return fields


def finish(fields: dict[str, Raw], *, public_model: str | None, extra: dict[str, Any]) -> bytes:
    """The answer for the client: public model name, and `usage.cerberus` where usage stands."""
    if public_model is not None and "model" in fields:
        fields["model"] = Raw(_encode(public_model))
    usage = fields.get("usage")
    if usage is not None and bytes(usage).startswith(b"{"):
        head = bytes(usage).rstrip()[:-1].rstrip()
        comma = b"" if head.endswith(b"{") else b","
        fields["usage"] = Raw(head + comma + b'"cerberus":' + _encode(extra) + b"}")
    return _encode(fields)
