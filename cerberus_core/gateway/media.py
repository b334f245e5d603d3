"""Requests for audio and images: forms with files, and JSON. Pure.

They pass to endpoints that speak them, never translated: of a form, the model's name is
replaced, and every other byte stays.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import msgspec
from msgspec import Raw

from cerberus_core.errors import BadRequest

from .request import NO_PARAMETERS, REQUIRED, Parameters, Parsed, model_of
from .sink import Header

PATHS = frozenset({path for path in REQUIRED if path.startswith(("/v1/audio/", "/v1/images/"))})
FORMS = PATHS - {"/v1/audio/speech", "/v1/images/generations"}
"""Those that take forms; the others JSON."""
MAX_PARTS = 100
MAX_PART_HEAD = 8 << 10
"""Bytes of the lines before a part's value."""
MAX_TEXT = 64 << 10
"""Bytes of a value that is read; a longer one is a file."""

_BOUNDARY = re.compile(
    r"multipart/form-data\s*;(?:.*;)?\s*boundary=(\"?)([\w'()+,./:=? -]{1,70})\1\s*(?:;|$)", re.I
)
_DISPOSITION = re.compile(rb"^content-disposition:([^\r\n]*)", re.I | re.M)
_PARAMETER = re.compile(rb';\s*([\w*-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"]*)')
_encode = msgspec.json.Encoder().encode


@attrs.define(kw_only=True)
class Form(Parsed):
    """A form. `fields` are its short texts."""

    content_type: str
    whole: bytes = attrs.field(repr=False)
    model_at: tuple[int, int]
    """Where the model's name stands."""

    def body_for(
        self, model: str, *, stream: bool, parameters: Parameters = NO_PARAMETERS
    ) -> bytes:
        start, end = self.model_at
        view = memoryview(self.whole)
        return b"".join((view[:start], model.encode(), view[end:]))


def parse_form(path: str, headers: Iterable[Header], body: bytes) -> Form:
    """Take a form apart. Raises `BadRequest` that says what is wrong with it."""
    told = next((value for name, value in headers if name == b"content-type"), b"")
    match = _BOUNDARY.match(told.decode("latin-1"))
    if match is None:
        raise BadRequest(
            f"{path} takes a form, not {told.decode('latin-1')[:80] or 'what has no content-type'}",
            hint="Send multipart/form-data, with `model` and the file as its fields.",
        )
    boundary = match[2].rstrip()
    fields: dict[str, Raw] = {}
    names: set[str] = set()
    model_at = (0, 0)
    for name, is_file, start, end in _parts(body, boundary.encode()):
        if name == "model" and (is_file or name in names):
            raise BadRequest("`model` must be one text")  # which of two would be asked?
        names.add(name.removesuffix("[]"))
        if is_file or end - start > MAX_TEXT:
            continue
        if name == "model":
            model_at = (start, end)
        fields.setdefault(name, Raw(_encode(_text(body[start:end], name))))
    model = model_of(fields)
    required = REQUIRED[path]
    if required not in names:
        raise BadRequest(f"`{required}` is missing")
    return Form(
        path=path,
        model=model,
        stream=bytes(fields.get("stream", b"")).lower() == b'"true"',
        wants_usage=True,
        several=False,
        fields=fields,
        content_type=f'multipart/form-data; boundary="{boundary}"',
        whole=body,
        model_at=model_at,
    )


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[str, bool, int, int]]:
    """(name, whether it is a file, where its value begins and ends) of each."""
    mark = b"--" + boundary
    at = 0 if body.startswith(mark) else body.find(b"\r\n" + mark) + 2
    for _ in range(MAX_PARTS):
        at += len(mark)
        if not body.startswith(mark, at - len(mark)):
            break
        if body.startswith(b"--", at):
            return
        begin = body.find(b"\r\n", at)
        start = body.find(b"\r\n\r\n", begin, begin + MAX_PART_HEAD) + 4
        end = body.find(b"\r\n" + mark, start - 2)
        if begin < 0 or start < 4 or end < 0:
            break
        told = _disposition(body[begin + 2 : start - 2])
        is_file = any(key.startswith("filename") for key in told)
        yield told.get("name", ""), is_file, start, max(start, end)
        at = end + 2
    raise BadRequest("The form is broken, cut off, or in too many parts")


def _disposition(head: bytes) -> dict[str, str]:
    line = _DISPOSITION.search(head)
    found = [] if line is None else _PARAMETER.findall(line[1])
    return {
        key.decode().lower(): value.strip().strip(b'"').decode(errors="replace")
        for key, value in found
    }


def _text(value: bytes, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadRequest(f"`{name}` is not UTF-8") from None


def usage_of(data: bytes) -> dict[str, Any] | None:
    """The tokens that an answer tells, as chat tells them; None where it tells none."""
    try:
        told = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    usage = told.get("usage") if isinstance(told, dict) else None
    if not isinstance(usage, dict):
        return None
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
    }
