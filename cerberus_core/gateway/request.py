"""The client's request: what the gateway must know of it, and the one for the engine. Pure.

Only the top level is taken apart; every value that the gateway doesn't change
keeps its very bytes, numbers and unknown fields included.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
from msgspec import Raw

from cerberus_core.errors import BadRequest

_Fields = dict[str, Raw]
_decode_fields = msgspec.json.Decoder(_Fields).decode
_encode = msgspec.json.Encoder().encode

Parameters = tuple[Mapping[str, Any], Mapping[str, Any]]
"""What a model's settings add to its requests: (where they don't name it, in any case)."""
NO_PARAMETERS: Parameters = ({}, {})

MAX_NAME = 512
"""Characters of a model's name."""

REQUIRED = {
    "/v1/chat/completions": "messages",
    "/v1/completions": "prompt",
    "/v1/embeddings": "input",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "messages",
    "/v1/rerank": "query",
    "/v1/responses": "input",
    "/v1/audio/speech": "input",
    "/v1/audio/transcriptions": "file",
    "/v1/audio/translations": "file",
    "/v1/images/edits": "image",
    "/v1/images/generations": "prompt",
}
"""Each path and the field that it can't do without."""
WHOLE = frozenset({"/v1/embeddings", "/v1/rerank", "/v1/messages/count_tokens"})
"""Paths that are never answered in a stream."""
_ASKS_USAGE = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Paths whose streams tell usage where they are asked to."""


@attrs.define(kw_only=True)
class Parsed:
    """`body` as it came; `model` as the client named it."""

    path: str
    model: str
    stream: bool
    wants_usage: bool
    several: bool
    """More than one choice was asked for."""
    fields: _Fields = attrs.field(repr=False)

    def decoded(self) -> dict[str, Any]:
        """The whole request for a translator. Raises `BadRequest`."""
        try:
            return {key: msgspec.json.decode(value) for key, value in self.fields.items()}
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadRequest(f"The body is not valid JSON: {error}") from None

    def body_for(
        self, model: str, *, stream: bool, parameters: Parameters = NO_PARAMETERS
    ) -> bytes:
        """The request for an engine that knows the model as `model`; `stream` as it shall answer.

        A stream always asks for usage: the meter needs it, the client sees it
        only if it asked.
        """
        fields = dict(self.fields)
        defaults, forced = parameters
        for name, value in defaults.items():
            if name not in fields:
                fields[name] = Raw(_encode(value))
        for name, value in forced.items():
            fields[name] = Raw(_encode(value))
        fields["model"] = Raw(_encode(model))
        if stream and not self.stream:
            fields["stream"] = Raw(b"true")
        if stream and not self.wants_usage and self.path in _ASKS_USAGE:
            options = _options(fields)
            options["include_usage"] = True
            fields["stream_options"] = Raw(_encode(options))
        return _encode(fields)


def with_parameters(fields: Mapping[str, Any], parameters: Parameters) -> dict[str, Any]:
    """A decoded request with what the model's settings add to it."""
    defaults, forced = parameters
    return {**defaults, **fields, **forced}


def parse(path: str, body: bytes) -> Parsed:
    """Take a request apart. Raises `BadRequest` that says what is wrong with it."""
    fields = take_apart(body)
    model = model_of(fields)
    required = REQUIRED[path]
    check_there(fields, required)
    stream = path not in WHOLE and bool(typed(fields, "stream", bool, "true or false"))
    return Parsed(
        path=path,
        model=model,
        stream=stream,
        several=_several(fields),
        wants_usage=stream
        and (path not in _ASKS_USAGE or _options(fields).get("include_usage") is True),
        fields=fields,
    )


def take_apart(body: bytes) -> _Fields:
    """The top level of a body. Raises `BadRequest`."""
    try:
        body.decode()
        return _decode_fields(body)
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not UTF-8 (byte {error.start})") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        if body[:1] in (b"[", b'"') or not body.strip():
            what = "The body is empty" if not body.strip() else "The body is not a JSON object"
        else:
            what = f"The body is not valid JSON: {error}"
        raise BadRequest(
            what, hint='Send an object such as {"model": "…", "messages": […]}.'
        ) from None


def model_of(fields: _Fields) -> str:
    """The model that is asked for. Raises `BadRequest`."""
    model: str = _plain_text(fields.get("model")) or typed(fields, "model", str, "a string")
    if not model:
        raise BadRequest(
            "`model` is missing", hint="GET /v1/models lists the names.", code="model_missing"
        )
    if len(model) > MAX_NAME:
        raise BadRequest(f"`model` is longer than {MAX_NAME} characters")
    return model


def check_there(fields: _Fields, required: str) -> None:
    """That the field is there, and that messages are some. Raises `BadRequest`."""
    value = fields.get(required)
    first = b"n" if value is None else memoryview(value)[:1]  # a peek: it may be megabytes
    if first == b"n":
        raise BadRequest(f"`{required}` is missing")
    if required == "messages" and first != b"[":
        raise BadRequest("`messages` must be a list of messages")
    if required == "messages" and _is_empty(value):
        raise BadRequest("`messages` is empty", hint="Send at least one message.")


def _is_empty(raw: Raw | None) -> bool:
    """Whether a list holds nothing; looks into short ones alone."""
    return raw is not None and len(memoryview(raw)) < 64 and not bytes(raw)[1:-1].strip()


def _plain_text(raw: Raw | None) -> str | None:
    """A JSON string without escapes, which nearly every model name is; None for all else."""
    if raw is None:
        return None
    data = bytes(raw)
    if data[:1] != b'"' or b"\\" in data:
        return None
    return data[1:-1].decode()


def typed(fields: _Fields, key: str, kind: type[Any], expected: str) -> Any:
    """A field of the top level, None if it isn't there. Raises `BadRequest`."""
    raw = fields.get(key)
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError:
        raise BadRequest(f"`{key}` must be {expected}") from None


def _several(fields: _Fields) -> bool:
    n, prompt = fields.get("n"), fields.get("prompt")
    return (n is not None and bytes(n) not in (b"1", b"null")) or (
        prompt is not None and bytes(memoryview(prompt)[:1]) == b"["
    )


def _options(fields: _Fields) -> dict[str, Any]:
    options: dict[str, Any] = typed(fields, "stream_options", dict[str, Any], "an object") or {}
    return options
