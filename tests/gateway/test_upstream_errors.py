"""What an endpoint's refusal becomes: its own body, or the words of whoever knows better."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cerberus_core.errors import BadRequest, CerberusError
from cerberus_core.gateway.answers import status_of
from cerberus_core.gateway.upstream_errors import KeptStatus, refusal
from cerberus_core.testing import Reply, ScriptedServer
from cerberus_core.values import ModelInfo
from tests.conftest import StartBox, endpoint

MODEL = ModelInfo(id="up/m", backend="up", name="m")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BODY = json.dumps({"error": {"message": "the tensor is too wide"}}).encode()
KNOWN = BadRequest("up/m takes no such thing", hint="Send less.", code="unsupported_input")


def nothing_known(status: int, body: bytes) -> CerberusError | None:
    return None


def test_a_refusal_passes_as_it_came_unless_the_backend_knows_better() -> None:
    error = refusal(500, {}, BODY, MODEL, nothing_known, NOW)
    assert isinstance(error, KeptStatus)
    assert (error.body, status_of(error), error.overflow) == (BODY, 500, False)
    assert refusal(500, {}, BODY, MODEL, lambda *_: KNOWN, NOW) is KNOWN
    plain = b"the tensor is too wide"
    assert refusal(500, {}, plain, MODEL, lambda *_: KNOWN, NOW) is KNOWN, "of any shape"


@pytest.mark.parametrize(
    ("error", "overflow"),
    [
        ({"message": "x", "code": "context_length_exceeded"}, True),
        ({"message": "x", "type": "exceed_context_size_error"}, True),
        ({"message": "the request exceeds the available context size, try to raise it"}, True),
        ({"message": "prompt is too long: 210000 tokens > 200000 maximum"}, True),
        ({"message": "`messages` is empty"}, False),
    ],
)
def test_a_request_longer_than_the_context_is_known_as_one(
    error: dict[str, str], overflow: bool
) -> None:
    told = refusal(400, {}, json.dumps({"error": error}).encode(), MODEL, nothing_known, NOW)
    assert isinstance(told, KeptStatus)
    assert told.overflow is overflow


def test_what_only_the_operator_can_mend_needs_no_explanation() -> None:
    for status in (401, 302):
        error = refusal(status, {}, BODY, MODEL, lambda *_: KNOWN, NOW)
        assert status_of(error) == 502


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [True, False])
async def test_the_backend_is_asked_what_its_servers_refusal_means(
    start_box: StartBox, upstream: ScriptedServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    asked: list[tuple[str, int, bytes]] = []

    def explain(_: Any, model: ModelInfo, status: int, body: bytes) -> CerberusError:
        asked.append((model.id, status, body))
        return KNOWN

    monkeypatch.setattr("cerberus_openai.backend.OpenAIBackend.explain", explain)
    upstream.reply = Reply(status=500, parts=[BODY], framing="length")
    ask = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    async with start_box(endpoint(upstream)) as box:
        answer = await box.http.post("/v1/chat/completions", json=ask)
    assert asked == [("up/m", 500, BODY)]
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert (error["message"], error["hint"], error["code"]) == (
        KNOWN.message,
        KNOWN.hint,
        "unsupported_input",
    )
