"""Who asks again after a failure, how often, and when: with the official clients as they come."""

from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import anyio
import openai
import pytest

from cerberus_core.errors import (
    BadRequest,
    CerberusError,
    EngineLost,
    LimitReached,
    LoadFailed,
    NoRoom,
    Overloaded,
    UpstreamFailed,
)
from cerberus_core.gateway.retry import retry_hint
from cerberus_core.gateway.upstream_errors import KeptStatus, Refused
from cerberus_core.testing import FakeClock, Reply, ScriptedServer
from cerberus_core.testing.scripted import echo
from tests.conftest import Box, StartBox, endpoint
from tests.gateway.test_fallbacks import config

MESSAGES: Any = [{"role": "user", "content": "hi"}]
JSON = ("content-type", "application/json")
AT_ONCE = ("retry-after-ms", "1")
"""So that a client which asks again doesn't sleep."""
BUSY = {"error": {"message": "slow down", "type": "rate_limit_error"}}


async def openai_asks(box: Box, model: str, key: str | None = None) -> openai.APIStatusError:
    async with openai.AsyncOpenAI(base_url=f"{box.url}/v1", api_key=key or box.token) as client:
        with anyio.fail_after(10), pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(model=model, messages=MESSAGES)
    return caught.value


async def anthropic_asks(box: Box, model: str, key: str | None = None) -> anthropic.APIStatusError:
    async with anthropic.AsyncAnthropic(base_url=box.url, api_key=key or box.token) as client:
        with anyio.fail_after(10), pytest.raises(anthropic.APIStatusError) as caught:
            await client.messages.create(model=model, messages=MESSAGES, max_tokens=9)
    return caught.value


Asks = Callable[..., Awaitable[Any]]
both = pytest.mark.parametrize("asks", [openai_asks, anthropic_asks])


def failing(status: int, *headers: tuple[str, str]) -> Reply:
    return Reply.json(BUSY, status=status, headers=[JSON, *headers])


@both
@pytest.mark.anyio
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_client_does_not_repeat_what_the_gateway_tried_with_every_fallback(
    start_box: StartBox, asks: Asks, status: int
) -> None:
    reply = failing(status, AT_ONCE)
    async with ScriptedServer(reply) as first, ScriptedServer(reply) as second:
        async with start_box(config(first, second)) as box:
            told = await asks(box, "first/m")
        assert told.status_code == status
        assert told.response.headers["x-should-retry"] == "false"
        assert (len(first.requests), len(second.requests)) == (1, 1)


@both
@pytest.mark.anyio
async def test_without_fallbacks_asking_again_is_the_clients(
    start_box: StartBox, upstream: ScriptedServer, asks: Asks
) -> None:
    upstream.reply = failing(503, AT_ONCE)
    wires = 'wires = ["messages"]' if asks is anthropic_asks else ""
    async with start_box(endpoint(upstream, more=wires)) as box:
        told = await asks(box, "up/m")
    assert "x-should-retry" not in told.response.headers
    assert len(upstream.requests) == 3


@both
@pytest.mark.anyio
@pytest.mark.parametrize(
    "reply",
    [
        failing(429, ("retry-after", "3600")),
        Reply.json({"error": {"message": "pay", "code": "insufficient_quota"}}, status=429),
        Reply.json({"error": {"message": "who?"}}, status=401),
    ],
    ids=["far", "nothing left", "the operator's key"],
)
async def test_what_lasts_is_asked_once(
    start_box: StartBox, upstream: ScriptedServer, asks: Asks, reply: Reply
) -> None:
    upstream.reply = reply
    async with start_box(endpoint(upstream)) as box:
        told = await asks(box, "up/m")
    assert told.response.headers["x-should-retry"] == "false"
    assert len(upstream.requests) == 1


@both
@pytest.mark.anyio
async def test_g07_a_refusal_of_the_request_is_told_and_not_asked_again(
    start_box: StartBox, upstream: ScriptedServer, asks: Asks
) -> None:
    upstream.reply = Reply.json({"error": {"message": "no such role"}}, status=400)
    async with start_box(endpoint(upstream)) as box:
        told = await asks(box, "up/m")
    assert (told.status_code, "no such role" in told.message) == (400, True)
    assert len(upstream.requests) == 1


@both
@pytest.mark.anyio
async def test_a_key_that_is_used_up_asks_once(
    start_box: StartBox, upstream: ScriptedServer, asks: Asks
) -> None:
    async with start_box(endpoint(upstream), clock=FakeClock()) as box:
        limits = [{"what": "requests", "per": "day", "most": 0}]
        made = await box.http.post("/api/keys", json={"name": "k", "limits": limits})
        told = await asks(box, "up/m", made.json()["token"])
        assert (told.status_code, told.response.headers["retry-after"]) == (429, "86400")
        requests = (await box.http.get("/api/requests")).json()
        assert (len(requests["recent"]), requests["live"]) == (1, [])


# What a provider says of its limits.

OPENAIS = [
    ("x-ratelimit-remaining-requests", "0"),
    ("x-ratelimit-reset-requests", "1m30s"),
]
ANTHROPICS = [
    ("anthropic-ratelimit-requests-remaining", "0"),
    ("anthropic-ratelimit-requests-reset", "2026-01-01T00:01:30Z"),
]
OF = {"chat": OPENAIS, "messages": ANTHROPICS}


@both
@pytest.mark.anyio
@pytest.mark.parametrize("wire", ["chat", "messages"])
async def test_a_providers_limit_comes_with_its_time_in_either_dialect(
    start_box: StartBox, upstream: ScriptedServer, asks: Asks, wire: str
) -> None:
    upstream.reply = failing(429, *OF[wire], ("set-cookie", "spy=1"))
    config = endpoint(upstream, more=f'wires = ["{wire}"]\nlocal = false')
    async with start_box(config, clock=FakeClock()) as box:
        told = await asks(box, "up/m")
        record = await box.record()
    headers = told.response.headers
    assert (told.status_code, headers["retry-after"]) == (429, "90")
    assert "slow down" in told.message
    straight = (wire == "messages") == (asks is anthropic_asks)
    for name, value in OF[wire]:
        assert headers.get(name) == (value if straight else None)
    assert "set-cookie" not in headers
    assert record.error == "slow down (ask again after 2026-01-01 00:01:30 UTC)"


@pytest.mark.anyio
async def test_a_fallback_answers_and_the_record_has_the_time(start_box: StartBox) -> None:
    async with ScriptedServer(failing(429, *OPENAIS)) as first, ScriptedServer() as second:
        async with start_box(config(first, second), clock=FakeClock()) as box:
            body = {"model": "first/m", "messages": MESSAGES}
            answer = await box.http.post("/v1/chat/completions", json=body)
            record = await box.record()
    assert answer.status_code == 200
    assert "x-ratelimit-reset-requests" not in answer.headers, "it is another's"
    assert record.tried[0].why == "slow down (ask again after 2026-01-01 00:01:30 UTC)"


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [False, True])
async def test_how_much_of_a_quota_is_left_comes_with_a_good_answer(
    start_box: StartBox, upstream: ScriptedServer, stream: bool
) -> None:
    left = ("x-ratelimit-remaining-requests", "41")

    def reply(received: Any) -> Reply:
        said = echo(received)
        said.headers = [*said.headers, left, ("openai-organization", "acme")]
        return said

    upstream.reply = reply
    async with start_box(endpoint(upstream, more="local = false")) as box:
        body = {"model": "up/m", "messages": MESSAGES, "stream": stream}
        answer = await box.http.post("/v1/chat/completions", json=body)
    assert answer.headers["x-ratelimit-remaining-requests"] == "41"
    assert "openai-organization" not in answer.headers


# The hint alone.


def kept(status: int, **more: Any) -> KeptStatus:
    made = KeptStatus("x", status)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def waiting(error: CerberusError, seconds: int) -> CerberusError:
    error.retry_after_s = seconds
    return error


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (BadRequest("x"), {}),
        (EngineLost("x"), {}),
        (UpstreamFailed("x"), {}),
        (LoadFailed("x"), {}),
        (Overloaded("x"), {"retry-after": "1"}),
        (waiting(LimitReached("x"), 60), {"retry-after": "60"}),
        (waiting(LimitReached("x"), 61), {"retry-after": "61", "x-should-retry": "false"}),
        (LimitReached("x"), {"x-should-retry": "false"}),
        (NoRoom("x"), {"x-should-retry": "false"}),
        (LoadFailed("x", code="model_broken"), {"x-should-retry": "false"}),
        (Refused("x"), {"x-should-retry": "false"}),
        (kept(500), {}),
        (kept(400, overflow=True), {"x-should-retry": "false"}),
        (kept(429, headers=[(b"x-should-retry", b"true")]), {"x-should-retry": "true"}),
        (
            kept(429, headers=[(b"x-should-retry", b"true")], used_up=True),
            {"x-should-retry": "false"},
        ),
        (
            kept(429, headers=[(b"retry-after", b"6.5")], retry_after_s=7),
            {"retry-after": "6.5"},
        ),
    ],
)
def test_the_hint_for_each_error(error: CerberusError, hint: dict[str, str]) -> None:
    def told(tried: bool) -> dict[str, str]:
        pairs = retry_hint(error, tried=tried)
        assert len({name for name, _ in pairs}) == len(pairs)
        return {name.decode(): value.decode() for name, value in pairs}

    assert told(False) == hint
    assert told(True) == {**hint, "x-should-retry": "false"}
