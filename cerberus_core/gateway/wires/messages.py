"""The Anthropic Messages dialect: requests, errors and signs of life. Pure.

Follows https://docs.anthropic.com/en/api/messages and
https://docs.anthropic.com/en/api/errors.
"""

from typing import Any

import attrs
import msgspec
from msgspec import Raw

from cerberus_core import errors
from cerberus_core.errors import BadRequest, CerberusError
from cerberus_core.gateway.answers import status_of
from cerberus_core.gateway.body import NotJson
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.request import check_there, model_of, take_apart, typed

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode

KEEP_ALIVE = b'event: ping\ndata: {"type": "ping"}\n\n'
"""What a silent stream may carry between two events."""

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@attrs.define(kw_only=True)
class MessagesRequest:
    """What the gateway must know of a Messages request; every value keeps its very bytes."""

    model: str
    stream: bool
    fields: dict[str, Raw] = attrs.field(repr=False)

    def body_for(self, model: str, *, stream: bool) -> bytes:
        """The request for a backend that speaks Messages and knows the model as `model`."""
        fields = self.fields | {"model": Raw(_encode(model))}
        if stream != self.stream:
            fields["stream"] = Raw(b"true" if stream else b"false")
        return _encode(fields)

    def decoded(self) -> dict[str, Any]:
        """The whole request for a translator. Raises `BadRequest`."""
        try:
            return {key: msgspec.json.decode(value) for key, value in self.fields.items()}
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadRequest(f"The body is not valid JSON: {error}") from None


def parse(body: bytes, *, counting: bool = False) -> MessagesRequest:
    """Take a request apart; `counting`: it asks for `count_tokens`. Raises `BadRequest`."""
    fields = take_apart(body)
    model = model_of(fields)
    check_there(fields, "messages")
    if not counting and not isinstance(typed(fields, "max_tokens", int, "a whole number"), int):
        raise BadRequest(
            "`max_tokens` is missing", hint="How many tokens may the answer have at most?"
        )
    stream = not counting and bool(typed(fields, "stream", bool, "true or false"))
    return MessagesRequest(model=model, stream=stream, fields=fields)


def error_type(error: CerberusError, status: int | None = None) -> str:
    """The dialect's name for an error; `status` where another than its own is answered."""
    if isinstance(error, errors.LoadFailed):
        return "api_error"  # asking again is no remedy, as it were for an overload
    status = status_of(error) if status is None else status
    return _TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "api_error")


def error_body(
    error: CerberusError, request_id: str | None = None, *, status: int | None = None
) -> bytes:
    """An error as the body of an answer. Clients show its message alone, so the hint is in it."""
    message = error.message
    if error.hint is not None:
        message = f"{message.rstrip('.')}. {error.hint}"
    value: dict[str, Any] = {
        "type": "error",
        "error": {
            "type": error_type(error, status),
            "message": message,
            "details": {"error_code": error.code},
        },
    }
    if request_id is not None:
        value["request_id"] = request_id
    return _encode(value)


def error_event(
    error: CerberusError, request_id: str | None = None, *, status: int | None = None
) -> bytes:
    """An error as the last event of a stream; no `message_stop` follows it."""
    return b"event: error\ndata: " + error_body(error, request_id, status=status) + b"\n\n"


# What an answer in this dialect says of itself.


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


_decode_usage = msgspec.json.Decoder(_Usage, strict=False).decode


def take_usage(raw: Raw | bytes, facts: Facts) -> None:
    """Read a `usage` object; one of an odd shape tells nothing.

    The dialect counts what came from or went into a cache apart; the meter counts
    the whole prompt.
    """
    try:
        usage = _decode_usage(raw)
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        return
    read, made = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    if usage.input_tokens is not None:
        facts.prompt_tokens = max(0, usage.input_tokens) + max(0, read or 0) + max(0, made or 0)
    if read is not None:
        facts.cached_tokens = max(0, read)
    if usage.output_tokens is not None:
        facts.completion_tokens = max(0, usage.output_tokens)


def read(body: bytes, facts: Facts) -> dict[str, Raw]:
    """Take a whole answer apart and meter it. Raises `NotJson`."""
    try:
        body.decode()
        fields = _decode_fields(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotJson from None
    usage = fields.get("usage")
    if usage is not None:
        take_usage(usage, facts)
    return fields
