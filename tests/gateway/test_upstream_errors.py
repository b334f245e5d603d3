"""What an engine's refusal means, in words that help. Pure."""

import json
from typing import Any

import attrs

from cerberus_core.gateway.answers import error_value, status_of
from cerberus_core.gateway.upstream_errors import refusal
from cerberus_core.values import ModelInfo

MANAGED = ModelInfo(id="llamacpp/m", backend="llamacpp", name="m", ctx=8192)


def of_the_engine(status: int, message: str, model: ModelInfo) -> tuple[bytes | None, Any]:
    data = json.dumps({"error": {"code": status, "message": message}}).encode()
    return refusal(status, {}, data, model)


def test_an_engine_whose_context_is_too_small_is_told_with_the_setting() -> None:
    words = (
        "request (2031 tokens) exceeds the available context size (256 tokens), try increasing it"
    )
    passed, error = of_the_engine(400, words, MANAGED)
    assert passed is None
    assert status_of(error) == 400
    assert (error.code, error_value(error)["type"]) == (
        "context_length_exceeded",
        "invalid_request_error",
    )
    assert "2031 tokens" in error.message
    assert """config set 'models."llamacpp/m".context' 4096""" in error.hint
    served_elsewhere = attrs.evolve(MANAGED, managed=False)
    passed, _ = of_the_engine(400, words, served_elsewhere)
    assert passed is not None, "its settings are not ours"
    short = attrs.evolve(MANAGED, ctx=256)
    _, error = of_the_engine(400, words, short)
    assert error.hint == "It was trained for 256 tokens: ask for less."


def test_an_image_for_a_model_that_sees_none_is_a_400() -> None:
    words = (
        "image input is not supported - hint: if this is unexpected, you may need to provide "
        "the mmproj"
    )
    passed, error = of_the_engine(500, words, MANAGED)
    assert passed is None
    assert status_of(error) == 400
    assert error.message == "llamacpp/m takes no image input"
    assert "vision" in error.hint
    passed, error = of_the_engine(500, "out of memory", MANAGED)
    assert passed is not None
    assert status_of(error) == 500
