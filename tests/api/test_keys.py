"""Gateway keys over HTTP, by both ways through the server."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx
import openai
import pytest

from cerberus_core.cli.logs import redact
from cerberus_core.testing import FakeClock, Reply, ScriptedServer
from cerberus_core.testing.scripted import Wait, chat_answer, chat_chunks
from tests.api.wires import raw
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

MESSAGES: Any = [{"role": "user", "content": "hi"}]
ASK: dict[str, Any] = {"model": "up/m", "messages": MESSAGES, "max_tokens": 10}
WAYS = ["/v1/chat/completions", "/v1/chat/completions?asgi"]
"""Straight to the gateway, and through ASGI."""


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    async with start_box(here_and_elsewhere(upstream)) as box:
        yield box


def here_and_elsewhere(upstream: ScriptedServer, more: str = "") -> str:
    """`up/m` counts as local, `cloud/m` doesn't."""
    return endpoint(upstream) + (
        f'[plugins.openai.endpoints.cloud]\nbase_url = "{upstream.base_url}"\n'
        f'models = ["m"]\nlocal = false\napi_key = "sk-upstream"\n{more}'
    )


async def made(box: Box, name: str = "laptop", **wanted: Any) -> tuple[str, dict[str, Any]]:
    """(token, key)."""
    answer = await box.http.post("/api/keys", json={"name": name, **wanted})
    assert answer.status_code == 201, answer.text
    return answer.json()["token"], answer.json()["key"]


def per_day(**limits: float) -> list[dict[str, Any]]:
    return [{"what": what, "per": "day", "most": most} for what, most in limits.items()]


async def ask(box: Box, token: str, path: str = WAYS[0], **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"}
    return await box.http.post(path, json={**ASK, **more}, headers=headers)


async def listed(box: Box) -> dict[str, Any]:
    keys: dict[str, Any] = (await box.http.get("/api/keys")).json()
    return {key["name"]: key for key in keys["keys"]}


# Making, listing, renaming, revoking.


async def test_a_key_is_shown_once_and_listed_without_its_token(box: Box) -> None:
    token, key = await made(
        box, models=["up/*"], cloud=False, limits=per_day(tokens=100), max_parallel=3
    )
    assert token.startswith(f"ck-{key['id']}-")
    answer = await box.http.get("/api/keys")
    assert token[14:] not in answer.text
    [shown] = answer.json()["keys"]
    assert shown == key
    assert (shown["models"], shown["cloud"], shown["store_prompts"]) == (["up/*"], False, False)
    assert shown["limits"][0]["spent"] == 0
    assert shown["last_used_at"] is None
    assert answer.json()["currency"] == "EUR"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"name": ""},
        {"name": "a", "limits": [{"what": "tokens", "per": "week", "most": 1}]},
        {"name": "a", "limits": per_day(tokens=-1)},
        {"name": "a", "models": ["a b"]},
        {"name": "a", "expires_at": "2020-01-01T00:00:00Z"},
        {"name": "a", "max_parallel": 0},
    ],
)
async def test_a_key_that_makes_no_sense_is_a_400(box: Box, wrong: Any) -> None:
    answer = await box.http.post("/api/keys", json=wrong)
    assert answer.status_code == 400
    assert (await listed(box)) == {}


async def test_a_key_is_renamed_and_revoked_at_once(box: Box) -> None:
    token, key = await made(box)
    renamed = await box.http.patch(f"/api/keys/{key['id']}", json={"name": "phone"})
    assert renamed.json()["name"] == "phone"
    assert (await ask(box, token)).status_code == 200
    assert (await box.record()).client == "phone"
    assert (await box.http.delete(f"/api/keys/{key['id']}")).status_code == 204
    for way in WAYS:
        refused = await ask(box, token, way)
        assert refused.status_code == 401
        assert "revoked" in refused.json()["error"]["message"]
    for method in ("DELETE", "PATCH"):
        body = {"json": {"name": "x"}} if method == "PATCH" else {}
        missing = await box.http.request(method, f"/api/keys/{key['id']}", **body)
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_what_a_key_may_is_changed_for_the_next_request_and_the_rest_stays(box: Box) -> None:
    token, key = await made(box, limits=per_day(requests=1), max_parallel=3)
    path = f"/api/keys/{key['id']}"
    assert (await ask(box, token)).status_code == 200
    assert (await ask(box, token)).status_code == 429
    more = await box.http.patch(path, json={"limits": per_day(requests=2)})
    assert (await ask(box, token)).status_code == 200, more.text
    assert (await ask(box, token)).status_code == 429, "what was spent stays spent"
    assert (await box.http.patch(path, json={"limits": [], "cloud": False})).status_code == 200
    assert (await ask(box, token)).status_code == 200
    refused = await ask(box, token, model="cloud/m")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "cloud_not_allowed")
    await box.http.patch(path, json={"cloud": True, "models": ["cloud/*"]})
    assert (await ask(box, token, model="cloud/m")).status_code == 200
    assert (await ask(box, token)).status_code == 403
    await box.http.patch(path, json={"models": [], "max_parallel": None, "store_prompts": True})
    shown = (await listed(box))["laptop"]
    assert (shown["models"], shown["max_parallel"], shown["limits"]) == ([], None, [])
    assert (shown["store_prompts"], shown["total"]["requests"]) == (True, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"limits": per_day(words=1)},
        {"max_parallel": 0},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"models": ["a b"]},
    ],
)
async def test_a_change_that_makes_no_sense_changes_nothing(box: Box, wrong: Any) -> None:
    _, key = await made(box)
    answer = await box.http.patch(f"/api/keys/{key['id']}", json=wrong)
    assert answer.status_code == 400, answer.text
    assert (await listed(box))["laptop"] == key


async def test_a_key_that_has_expired_can_be_renewed(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    clock = FakeClock()
    async with start_box(endpoint(upstream), clock=clock) as box:
        token, key = await made(box, expires_at="2026-01-02T00:00:00Z")
        await clock.advance(2 * 86400)
        path = f"/api/keys/{key['id']}"
        assert (await box.http.patch(path, json={"name": "old"})).status_code == 200
        assert (await box.http.patch(path, json={"expires_at": "2026-01-02T12:00:00Z"})
                ).status_code == 400  # fmt: skip
        assert (await ask(box, token)).status_code == 401
        await box.http.patch(path, json={"expires_at": None})
        assert (await ask(box, token)).status_code == 200


async def test_a_key_that_is_revoked_while_its_request_is_on_its_way_is_refused(box: Box) -> None:
    token, key = await made(box)

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"model": "up/m", '
        await box.http.delete(f"/api/keys/{key['id']}")
        yield b'"messages": [{"role": "user", "content": "hi"}]}'

    headers = {"authorization": f"Bearer {token}"}
    answer = await box.http.post(WAYS[0], content=slowly(), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")


# Which doors it opens.


@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize("header", ["authorization: Bearer {}", "x-api-key: {}"])
async def test_both_headers_open_v1_for_a_key_and_for_the_owner(
    box: Box, path: str, header: str
) -> None:
    token, key = await made(box)
    for sent, name in ((token, "laptop"), (box.token, None)):
        pair = header.format(sent).partition(": ")
        async with httpx.AsyncClient(base_url=box.url) as client:
            answer = await client.post(
                path, json=ASK, headers={pair[0]: pair[2], "user-agent": "test/1"}
            )
            assert answer.status_code == 200
        record = await box.record()
        assert record.client == (name or "test/1")
        assert record.key_id == (key["id"] if name else None)


async def test_a_key_opens_nothing_but_v1(box: Box) -> None:
    token, key = await made(box)
    for header in (f"authorization: Bearer {token}", f"x-api-key: {token}"):
        for method, path in [
            ("GET", "/api/status"), ("GET", "/api/keys"), ("POST", "/api/keys"),
            ("DELETE", f"/api/keys/{key['id']}"), ("GET", "/api/events"), ("POST", "/api/codes"),
            ("GET", "/v1"), ("GET", "//v1/models"), ("GET", "/api/../v1/models"),
            ("POST", "/api/models/load/up/m"), ("GET", "/metrics"), ("GET", "/V1/models"),
        ]:  # fmt: skip
            answer = await raw(box, path, method=method, lines=[header])
            assert answer.status == 401, (path, header)
    assert "laptop" in await listed(box)
    owners = await raw(box, "/api/status", lines=[f"x-api-key: {box.token}"])
    assert owners.status == 401, "x-api-key is for /v1"
    for path in ("/v1/../api/status", "/v1/%2e%2e/api/keys", "/v1//api/keys"):
        answer = await raw(box, path, lines=[f"authorization: Bearer {token}"])
        assert answer.status == 404, path


@pytest.mark.parametrize("path", WAYS)
async def test_a_wrong_or_expired_key_is_a_401_in_plain_words(
    start_box: StartBox, upstream: ScriptedServer, path: str
) -> None:
    clock = FakeClock(datetime(2026, 1, 31, 22, tzinfo=UTC))
    async with start_box(endpoint(upstream), clock=clock) as box:
        token, _ = await made(box, expires_at="2026-02-01T00:00:00Z")
        assert (await ask(box, token, path)).status_code == 200
        wrong = await ask(box, token[:-1], path)
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "unauthenticated")
        assert wrong.headers["www-authenticate"] == "Bearer"
        clock.jump(2 * 3600)
        expired = await ask(box, token, path)
        assert (expired.status_code, expired.json()["error"]["code"]) == (401, "key_expired")
        assert "2026-02-01" in expired.json()["error"]["message"]
        assert (await listed(box))["laptop"]["expired"]


async def test_the_official_client_understands_each_refusal(box: Box) -> None:
    token, _ = await made(box, models=["up/*"], limits=per_day(requests=1))

    def client(key: str) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{box.url}/v1", api_key=key, max_retries=0)

    async with client(token) as good, client("ck-no") as bad:
        with pytest.raises(openai.AuthenticationError):
            await bad.chat.completions.create(model="up/m", messages=MESSAGES)
        with pytest.raises(openai.PermissionDeniedError) as forbidden:
            await good.chat.completions.create(model="cloud/m", messages=MESSAGES)
        assert forbidden.value.code == "model_not_allowed"
        assert "up/*" in str(forbidden.value.body["hint"])  # type: ignore[index]
        answer = await good.chat.completions.create(model="up/m", messages=MESSAGES)
        assert answer.choices[0].message.content == "hi"
        with pytest.raises(openai.RateLimitError) as limited:
            await good.chat.completions.create(model="up/m", messages=MESSAGES)
        assert limited.value.code == "limit_reached"
        assert 0 < int(limited.value.response.headers["retry-after"]) <= 86400
        assert [model.id async for model in good.models.list()] == ["up/m"]
        with pytest.raises(openai.NotFoundError):
            await good.models.retrieve("cloud/m")
        assert (await good.models.retrieve("up/m")).id == "up/m"


async def test_a_name_that_is_not_there_tells_a_key_of_no_others(box: Box) -> None:
    token, _ = await made(box, models=["up/*"])
    answer = await ask(box, token, model="clod/m")
    assert answer.status_code == 404
    assert "cloud" not in answer.text


async def test_local_only_reaches_no_cloud_and_loads_nothing_for_it(
    box: Box, upstream: ScriptedServer
) -> None:
    token, _ = await made(box, cloud=False)
    for way in WAYS:
        answer = await ask(box, token, way, model="cloud/m", stream=True)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cloud_not_allowed")
    assert upstream.requests == []
    assert (await ask(box, token)).status_code == 200
    record = (await box.records(3))[1]
    assert (record.status, record.client) == (403, "laptop"), "a refusal is on record"


# How much.


@pytest.mark.parametrize("path", WAYS)
async def test_a_hundred_at_once_get_no_more_than_the_limit(
    box: Box, upstream: ScriptedServer, path: str
) -> None:
    token, _ = await made(box, limits=per_day(requests=7))
    statuses: list[int] = []
    async with anyio.create_task_group() as tasks:

        async def one() -> None:
            statuses.append((await ask(box, token, path)).status_code)

        for _ in range(100):
            tasks.start_soon(one)
    assert sorted(statuses) == [200] * 7 + [429] * 93
    assert len(upstream.requests) == 7


async def test_tokens_are_reserved_while_it_runs_and_settled_by_what_it_took(
    box: Box, upstream: ScriptedServer
) -> None:
    token, _ = await made(box, limits=per_day(tokens=60))
    wait = Wait()
    first, *rest = chat_chunks(["Hel", "lo"])
    upstream.reply = Reply.stream([first, wait, *rest])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: ask(box, token, stream=True, max_tokens=40))
        with anyio.fail_after(10):
            await wait.reached.wait()
        [limit] = (await listed(box))["laptop"]["limits"]
        assert limit["spent"] == 0
        assert 40 < limit["reserved"] < 60
        beside = await ask(box, token, max_tokens=40)
        assert (beside.status_code, beside.headers["retry-after"]) == (429, "1")
        wait.go()
    await box.records(2)
    key = (await listed(box))["laptop"]
    assert key["limits"][0]["spent"] == 7  # what the endpoint told: 5 and 2
    assert (key["limits"][0]["reserved"], key["running"]) == (0, 0)
    assert (key["day"]["tokens"], key["total"]["requests"]) == (7, 1)
    assert key["last_used_at"] is not None


@pytest.mark.parametrize(
    "reply",
    [
        Reply.json({"error": {"message": "no", "type": "x"}}, status=400),
        Reply.json({}, status=500),
        Reply.json({"nonsense": 1}),
        Reply.stream([b"data: nonsense\n\n"]),
    ],
)
async def test_what_fails_gives_back_what_was_reserved(
    box: Box, upstream: ScriptedServer, reply: Reply
) -> None:
    token, _ = await made(box, limits=per_day(tokens=5000))
    upstream.reply = reply
    await ask(box, token, max_tokens=1000)
    await box.record()
    key = (await listed(box))["laptop"]
    assert (key["limits"][0]["reserved"], key["running"]) == (0, 0)


async def test_a_client_that_leaves_pays_for_the_prompt_and_what_it_heard(
    box: Box, upstream: ScriptedServer
) -> None:
    token, _ = await made(box, limits=per_day(tokens=5000))
    wait = Wait()
    first, *rest = chat_chunks(["Hel", "lo"])
    upstream.reply = Reply.stream([first, wait, *rest])
    headers = {"authorization": f"Bearer {token}"}
    body = {**ASK, "stream": True, "messages": [{"role": "user", "content": "x" * 4000}]}
    async with box.http.stream("POST", WAYS[0], json=body, headers=headers) as answer:
        async for _ in answer.aiter_bytes():
            break
    assert (await box.record()).status == 499
    key = (await listed(box))["laptop"]
    assert 1000 < key["day"]["tokens"] < 1100
    assert key["limits"][0]["reserved"] == 0


async def test_an_answer_that_tells_no_usage_counts_as_was_expected(
    box: Box, upstream: ScriptedServer
) -> None:
    token, _ = await made(box, limits=per_day(tokens=5000))
    upstream.reply = Reply.json(chat_answer("x", usage=None))
    await ask(box, token, max_tokens=1000)
    await box.record()
    assert 1000 < (await listed(box))["laptop"]["day"]["tokens"] < 1100


async def test_money_by_the_table_and_never_for_a_local_model(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    prices = '[prices."cloud/*"]\ninput = 100000\noutput = 1000000\n'
    async with start_box(here_and_elsewhere(upstream, prices)) as box:
        token, _ = await made(box, limits=per_day(money=2))
        assert (await ask(box, token, model="cloud/m")).status_code == 200
        record = await box.record()
        assert record.cost == pytest.approx(2.5)  # 5 and 2 tokens
        assert (await listed(box))["laptop"]["day"]["money"] == pytest.approx(2.5)
        refused = await ask(box, token, model="cloud/m")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "limit_reached")
        assert (await ask(box, token)).status_code == 200, "a local model costs nothing"
        assert (await box.record()).cost is None
        assert (await listed(box))["laptop"]["day"]["money"] == pytest.approx(2.5)


async def test_an_unknown_price_is_told_with_the_setting_and_counts_once_it_is_set(
    box: Box,
) -> None:
    token, _ = await made(box, limits=per_day(money=2))
    refused = await ask(box, token, model="cloud/m")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "price_unknown")
    assert '[prices."cloud/m"]' in refused.json()["error"]["hint"]
    owners = await box.http.post(WAYS[0], json={**ASK, "model": "cloud/m"})
    assert owners.status_code == 200
    file = anyio.Path(box.folders.config_file)
    text = await file.read_text()
    await file.write_text(text + '[prices."cloud/m"]\ninput = 1\noutput = 1\n')
    await box.http.post("/api/config/reload")
    assert (await ask(box, token, model="cloud/m")).status_code == 200


async def test_a_day_and_a_month_renew_when_they_end(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    clock = FakeClock(datetime(2026, 1, 30, 23, 0, tzinfo=UTC))
    async with start_box(endpoint(upstream), clock=clock) as box:
        daily, _ = await made(box, limits=per_day(requests=1))
        monthly, _ = await made(
            box, "monthly", limits=[{"what": "requests", "per": "month", "most": 1}]
        )
        for token, wait in ((daily, 3600), (monthly, 25 * 3600)):
            assert (await ask(box, token)).status_code == 200
            refused = await ask(box, token)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, str(wait))
        clock.jump(3600)
        assert [(await ask(box, one)).status_code for one in (daily, monthly)] == [200, 429]
        clock.jump(24 * 3600)
        assert [(await ask(box, one)).status_code for one in (daily, monthly)] == [200, 200]
        clock.jump(-24 * 3600)
        assert [(await ask(box, one)).status_code for one in (daily, monthly)] == [429, 429]


async def test_the_next_daemon_knows_the_key_and_what_it_has_spent(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    async with start_box(endpoint(upstream)) as box:
        token, _ = await made(box, limits=per_day(requests=2))
        await ask(box, token)
    async with start_box(endpoint(upstream)) as box:
        assert (await ask(box, token)).status_code == 200
        assert (await ask(box, token)).status_code == 429
        key = (await listed(box))["laptop"]
        assert (key["total"]["requests"], key["total"]["tokens"]) == (2, 14)


async def test_usage_by_key(box: Box) -> None:
    token, key = await made(box)
    for _ in range(2):
        await ask(box, token)
    await box.http.post(WAYS[0], json=ASK)
    await box.records(3)
    usage = (await box.http.get("/api/usage", params={"by": "key"})).json()
    rows = [(row["key_id"], row["name"], row["requests"]) for row in usage["keys"]]
    assert rows == [(key["id"], "laptop", 2), (None, None, 1)]
    assert usage["models"] == []
    assert (await box.http.get("/api/usage")).json()["keys"] == []
    assert (await box.http.get("/api/usage", params={"by": "moon"})).status_code == 400


# Secrets.


async def test_g19_a_key_in_either_header_stays_here(box: Box, upstream: ScriptedServer) -> None:
    token, _ = await made(box)
    for headers in (
        {"authorization": f"Bearer {token}"},
        {"authorization": "", "x-api-key": token},
        {"authorization": f"Bearer {token}", "x-api-key": token},
    ):
        for path in WAYS:
            for model in ("up/m", "cloud/m"):
                answer = await box.http.post(path, json={**ASK, "model": model}, headers=headers)
                assert answer.status_code == 200
    assert len(upstream.requests) == 12
    for received in upstream.requests:
        assert "ck-" not in str(received.headers)
        assert received.header("x-api-key") is None
    sent = {received.header("authorization") for received in upstream.requests}
    assert sent == {None, "Bearer sk-upstream"}


async def test_no_log_no_answer_and_no_file_has_the_token(
    start_box: StartBox, upstream: ScriptedServer, capfd: pytest.CaptureFixture[str]
) -> None:
    async with start_box(endpoint(upstream)) as box:
        token, key = await made(box, limits=per_day(requests=2))
        texts = [(await ask(box, token, way, **more)).text for way in WAYS for more in (
            {}, {"model": "nope"}, {"messages": 1}
        )]  # fmt: skip
        texts.append((await ask(box, token + "x")).text)
        for path in ("/api/keys", "/api/requests", "/api/usage?by=key", "/api/config"):
            texts.append((await box.http.get(path)).text)
        texts.append((await box.http.get(f"/v1/models?key={token}")).text)
        await box.http.delete(f"/api/keys/{key['id']}")
        texts.append((await ask(box, token)).text)
    secret = token[-43:]
    assert not any(secret in text for text in texts)
    kept = [path for path in box.folders.data.rglob("*") if path.is_file()]
    assert all(secret.encode() not in path.read_bytes() for path in kept)
    assert secret not in "".join(capfd.readouterr())


def test_a_key_in_a_log_line_is_taken_out() -> None:
    token = "ck-abcdefghjk-" + "x" * 43
    line = redact(None, "", {"event": f"odd header {token!r}", "tried": [f"x-api-key: {token}"]})
    assert "x" * 43 not in json.dumps(line)
    assert "ck-abcdefghjk-[removed]" in line["event"]
