"""What the engine's refusal means, in words that help. Pure."""

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from cerberus_llamacpp.backend import LlamaCpp
from cerberus_llamacpp.refusals import explain

from cerberus_core.errors import BadRequest
from cerberus_core.values import ModelInfo

MODEL = ModelInfo(id="llamacpp/m", backend="llamacpp", name="m", ctx=8192)
TOO_LONG = (
    "request (2031 tokens) exceeds the available context size (256 tokens), try increasing it"
)


def body(message: str) -> bytes:
    return json.dumps({"error": {"code": 400, "message": message}}).encode()


def test_a_context_that_is_too_small_is_told_with_the_setting() -> None:
    error = explain(MODEL, body(TOO_LONG))
    assert error is not None
    assert error.code == "context_length_exceeded"
    assert "2031 tokens" in error.message
    assert """config set 'models."llamacpp/m".context' 4096""" in str(error.hint)
    error = explain(attrs.evolve(MODEL, ctx=256), body(TOO_LONG))
    assert error is not None
    assert error.hint == "It was trained for 256 tokens: ask for less."


def test_an_image_for_a_model_that_sees_none_is_the_requests_fault() -> None:
    words = (
        "image input is not supported - hint: if this is unexpected, you may need to provide "
        "the mmproj"
    )
    error = explain(MODEL, body(words))
    assert isinstance(error, BadRequest)
    assert error.message == "llamacpp/m takes no image input"
    assert "vision" in str(error.hint)


@pytest.mark.parametrize(
    "words",
    [body("out of memory"), b"", b"{", b"[]", b'{"error": 5}', b'{"error": {"message": 5}}',
     b"[" * 100_000, b"\xff"],
)  # fmt: skip
def test_what_it_knows_nothing_of_passes_as_it_came(words: bytes) -> None:
    assert explain(MODEL, words) is None


@pytest.mark.anyio
async def test_the_backend_explains(make_backend: Callable[[], Any]) -> None:
    backend: LlamaCpp = make_backend()
    error = backend.explain(MODEL, 400, body(TOO_LONG))
    assert error is not None
    assert error.code == "context_length_exceeded"
    assert backend.explain(MODEL, 500, body("out of memory")) is None
