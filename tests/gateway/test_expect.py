"""What a request of a key is expected to take, and what it is taken to have used."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from cerberus_core.access import Key, Keys, Principal
from cerberus_core.errors import AccessDenied
from cerberus_core.gateway.admission import Admission
from cerberus_core.gateway.expect import IMAGE_TOKENS, OUTPUT, Expected, expected, taken
from cerberus_core.gateway.request import parse
from cerberus_core.testing import FakeClock
from cerberus_core.values import ModelInfo, Record

CHAT = "/v1/chat/completions"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def asked(path: str = CHAT, ctx: int | None = None, **fields: Any) -> Expected:
    return expected(path, {k: Raw(msgspec.json.encode(v)) for k, v in fields.items()}, ctx)


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ({}, OUTPUT),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 7, "max_tokens": 3}, 7),
        ({"max_output_tokens": 9}, 9),
        ({"max_tokens": 7, "n": 3}, 21),
        ({"max_tokens": 10**30}, 4096),
        ({"max_tokens": None}, OUTPUT),
        ({"max_tokens": "many", "n": "x"}, OUTPUT),
        ({"max_tokens": -5}, OUTPUT),
        ({"max_tokens": 100_000}, 4096),
    ],
)
def test_the_answer_is_as_long_as_asked_for_and_never_longer_than_the_context(
    fields: dict[str, Any], output: int
) -> None:
    assert asked(ctx=4096, **fields).output == output


def test_a_prompt_has_a_token_for_every_four_bytes_and_an_image_its_own() -> None:
    assert asked(messages="x" * 398).prompt == 100
    assert asked(ctx=50, messages="x" * 398).prompt == 50
    image = "data:image/png;base64," + "A" * 1_000_000
    told = asked(messages=[{"url": image}, {"url": image}, "x" * 398])
    assert 2 * IMAGE_TOKENS + 100 < told.prompt < 2 * IMAGE_TOKENS + 130
    assert asked("/v1/embeddings", input="x" * 398).output == 0


@given(st.dictionaries(st.text(max_size=12), st.binary(max_size=40), max_size=5))
def test_no_body_makes_it_raise(fields: dict[str, bytes]) -> None:
    prompt, output = expected(CHAT, {name: Raw(data) for name, data in fields.items()}, None)
    assert prompt >= 0
    assert output >= 0


@pytest.mark.parametrize(
    ("record", "used"),
    [
        ({"status": 200, "prompt_tokens": 5, "completion_tokens": 2}, (5, 2)),
        ({"status": 200, "completion_tokens": 2}, (100, 2)),
        ({"status": 200}, (100, 50)),
        ({"status": 200, "error": "it broke off", "completion_tokens": 3}, (100, 3)),
        ({"status": 200, "error": "it could not be loaded", "backend": None}, (0, 0)),
        ({"status": 499, "error": "left", "completion_tokens": 3}, (100, 3)),
        ({"status": 499, "error": "left"}, (100, 0)),
        ({"status": 499, "error": "left in the queue", "backend": None}, (0, 0)),
        ({"status": 502, "error": "no"}, (0, 0)),
        ({"status": 429, "error": "no", "backend": None}, (0, 0)),
    ],
)
def test_what_is_not_told_is_as_expected_where_it_was_answered(
    record: dict[str, Any], used: tuple[int, int]
) -> None:
    whole: dict[str, Any] = {"id": "r", "time": NOW, "model": "a/m", "backend": "a", **record}
    assert taken(Record(**whole), Expected(100, 50)) == used


class _Models:
    def listed(self, name: str) -> ModelInfo:
        return ModelInfo(id=name, backend="a", name=name)


@pytest.mark.anyio
async def test_a_model_that_gives_way_gives_back_and_the_request_counts_once() -> None:
    clock = FakeClock()
    keys = Keys(None, clock)
    _, account = await keys.add(lambda key_id, now: Key(id=key_id, name="a", created_at=now))
    parsed = parse(CHAT, b'{"model": "a/m", "messages": [1], "max_tokens": 10}')
    models: Any = _Models()
    admission = Admission(keys, account.principal, models, parsed, clock)
    for name in ("a/m", "a/other"):
        await admission.enter(name)
    assert account.running == 1
    assert account.reserved.tokens < 30
    answered = Record(
        id="r", time=NOW, model="a/other", backend="a", local=True, status=200,
        prompt_tokens=5, completion_tokens=2,
    )  # fmt: skip
    admission.end(answered, metered=False)
    admission.end(answered, metered=False)
    spent = account.in_period("total", clock.now())
    assert (spent.requests, spent.tokens) == (1, 7)
    assert (account.running, account.reserved.tokens) == (0, 0)


@pytest.mark.anyio
async def test_who_is_no_key_is_not_admitted() -> None:
    keys, models = Keys(None, FakeClock()), _Models()
    parsed = parse(CHAT, b'{"model": "a/m", "messages": [1]}')
    stranger = Admission(keys, Principal("x", "x"), models, parsed, FakeClock())  # type: ignore[arg-type]
    with pytest.raises(AccessDenied):
        await stranger.enter("a/m")
