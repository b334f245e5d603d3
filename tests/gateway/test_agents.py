"""What coding agents send beside their questions, and what they must be told."""

from typing import Any

import anthropic
import httpx
import pytest

from cerberus_core.testing import ScriptedServer
from tests.conftest import StartBox, endpoint

pytestmark = pytest.mark.anyio

MESSAGES = "/v1/messages?beta=true"
ASK: dict[str, Any] = {
    "model": "up/m",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "hi"}],
}
CLAUDE_CODE = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,some-beta-of-tomorrow-2030-01-01",
    "anthropic-dangerous-direct-browser-access": "true",
    "x-app": "cli",
    "x-stainless-retry-count": "0",
    "x-stainless-timeout": "600",
}


async def test_betas_and_headers_of_claude_code_are_no_hindrance_and_stay_here(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream)) as box:
        answer = await box.http.post(MESSAGES, json=ASK, headers=CLAUDE_CODE)
        counted = await box.http.post(
            "/v1/messages/count_tokens?beta=true", json=ASK, headers=CLAUDE_CODE
        )
        async with httpx.AsyncClient(base_url=box.url) as nobody:
            probe = await nobody.head("/")
    assert answer.status_code == 200
    assert counted.json()["input_tokens"] > 0
    assert probe.status_code == 200
    [request] = upstream.requests
    assert not CLAUDE_CODE.keys() & {name for name, _ in request.headers}


@pytest.mark.parametrize("header", ["X-Claude-Code-Session-Id", "Session-Id", "X-Session-Id"])
async def test_an_agents_own_session_is_in_the_record_unless_ours_is_named(
    start_box: StartBox, upstream: ScriptedServer, header: str
) -> None:
    async with start_box(endpoint(upstream)) as box:
        for more in ({}, {"X-Cerberus-Session": "ours"}):
            await box.http.post(MESSAGES, json=ASK, headers={**more, header: "theirs"})
            await box.http.post(MESSAGES, json=ASK, headers={header: "theirs", **more})
        records = await box.records(4)
    assert [r.session_id for r in records] == ["ours", "ours", "theirs", "theirs"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "kind", "words"),
    [
        ("POST", MESSAGES, {}, 401, "authentication_error", "No valid token"),
        ("POST", MESSAGES, {"x-api-key": "sk-ant"}, 401, "authentication_error", "is wrong"),
        ("POST", MESSAGES, {"origin": "http://x"}, 403, "permission_error", "may not call"),
        ("GET", MESSAGES, None, 405, "invalid_request_error", "POST is"),
        ("POST", "/v1/messages/batches", None, 404, "not_found_error", "There is no"),
    ],
)
async def test_refusals_under_messages_are_in_its_words(
    start_box: StartBox,
    upstream: ScriptedServer,
    method: str,
    path: str,
    headers: dict[str, str] | None,
    status: int,
    kind: str,
    words: str,
) -> None:
    """`headers` None: with the right token."""
    async with start_box(endpoint(upstream)) as box:
        right = {"authorization": f"Bearer {box.token}"}
        async with httpx.AsyncClient(base_url=box.url) as client:
            answer = await client.request(
                method, path, headers=right if headers is None else headers
            )
    assert answer.status_code == status
    told = answer.json()
    assert (told["type"], told["error"]["type"]) == ("error", kind)
    assert words in told["error"]["message"]


async def test_anthropics_package_lists_the_models(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with (
        start_box(endpoint(upstream)) as box,
        anthropic.AsyncAnthropic(base_url=box.url, api_key=box.token, max_retries=0) as client,
    ):
        [model] = [model async for model in client.models.list(limit=1000)]
        alone = await client.models.retrieve("up/m")
    for told in (model, alone):
        assert (told.id, told.type, told.display_name) == ("up/m", "model", "up/m")
        assert told.created_at is not None
        assert told.created_at.year > 2000
