"""How many tokens a request may take, before anybody has counted them. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw

from cerberus_core.values import Record

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1000
OUTPUT = 1024
"""Of an answer whose length the client doesn't limit."""
MOST = 1 << 31

_OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_NO_OUTPUT = ("/v1/embeddings", "/v1/rerank", "/v1/audio/", "/v1/images/")
_BASE64 = b";base64,"
_decode = msgspec.json.Decoder(int).decode


class Expected(NamedTuple):
    """Tokens of the prompt and of the answer."""

    prompt: int
    output: int


def expected(path: str, fields: Mapping[str, Raw], ctx: int | None) -> Expected:
    """`ctx`: the model's context, where known: neither is longer."""
    most = ctx or MOST
    prompt = sum(_tokens(raw) for raw in fields.values())
    output = 0
    if not path.startswith(_NO_OUTPUT):
        asked = [n for name in _OUTPUT_FIELDS if (n := _number(fields.get(name))) is not None]
        output = min(max(asked, default=OUTPUT), most) * max(1, _number(fields.get("n")) or 1)
    return Expected(min(prompt, most), min(output, MOST))


def taken(record: Record, expected: Expected) -> tuple[int, int]:
    """(prompt, completion) tokens that a finished request has used.

    What an answer doesn't tell is taken to be as expected. A client that leaves hears no
    usage, and its prompt was read all the same.
    """
    prompt, completion = record.prompt_tokens, record.completion_tokens
    whole = record.status == 200 and record.error is None
    begun = record.backend is not None and (record.status == 499 or completion is not None)
    if prompt is None:
        prompt = expected.prompt if whole or begun else 0
    if completion is None:
        completion = expected.output if whole else 0
    return prompt, completion


def _tokens(raw: Raw) -> int:
    data = bytes(raw)
    if _BASE64 not in data:
        return len(data) // BYTES_PER_TOKEN
    text, images, at = len(data), 0, 0
    while (start := data.find(_BASE64, at)) >= 0:
        at = data.find(b'"', start)
        at = len(data) if at < 0 else at
        text -= at - start
        images += 1
    return text // BYTES_PER_TOKEN + images * IMAGE_TOKENS


def _number(raw: Raw | None) -> int | None:
    if raw is None:
        return None
    try:
        value = _decode(raw)
    except msgspec.MsgspecError:
        return None
    return min(value, MOST) if value > 0 else None
