"""What chat programs that speak OpenAI's API do, from a desktop and from pages of a browser."""

import base64
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from cerberus_core.access import COOKIE_NAME, make_cookie
from cerberus_core.testing import Received, Reply, ScriptedServer
from cerberus_core.testing.scripted import chat_chunks
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

PAGE = "http://localhost:3000"
CHAT = "/v1/chat/completions"
PNG = base64.b64encode(bytes(range(256)) * 400).decode()
LOOK: Any = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ],
    }
]
ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}


def seeing(received: Received) -> Reply:
    """A model that says how many bytes its picture has."""
    [_, image] = received.json()["messages"][0]["content"]
    data = base64.b64decode(image["image_url"]["url"].removeprefix("data:image/png;base64,"))
    return Reply.stream(chat_chunks(["A picture ", f"of {len(data)} bytes."]))


@pytest.fixture
async def box(start_box: StartBox, upstream: ScriptedServer) -> AsyncIterator[Box]:
    cors = f'[gateway]\ncors_origins = ["{PAGE}", "tauri://localhost"]\n'
    async with start_box(endpoint(upstream) + cors) as box:
        yield box


@pytest.fixture
async def page(box: Box) -> AsyncIterator[httpx.AsyncClient]:
    """What a page of a listed origin sends; it holds no token yet."""
    async with httpx.AsyncClient(base_url=box.url, headers={"origin": PAGE}) as page:
        yield page


def bearer(box: Box) -> dict[str, str]:
    return {"authorization": f"Bearer {box.token}"}


async def test_address_and_key_are_enough_for_models_a_stream_and_an_image(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    upstream.reply = seeing
    async with (
        start_box(endpoint(upstream)) as box,
        openai.AsyncOpenAI(base_url=f"{box.url}/v1", api_key=box.token) as client,
    ):
        [model] = [model.id async for model in client.models.list()]
        stream = await client.chat.completions.create(model=model, messages=LOOK, stream=True)
        pieces = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    assert "".join(piece or "" for piece in pieces) == "A picture of 102400 bytes."


@pytest.mark.parametrize("origin", [PAGE, PAGE.upper(), "tauri://localhost"])
async def test_a_preflight_needs_no_token(box: Box, page: httpx.AsyncClient, origin: str) -> None:
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
    }
    answer = await page.options(CHAT, headers=asked)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == origin
    assert "POST" in answer.headers["access-control-allow-methods"]
    allowed = answer.headers["access-control-allow-headers"]
    assert allowed == asked["access-control-request-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_listed_page_reads_answers(box: Box, page: httpx.AsyncClient, stream: bool) -> None:
    page.headers.update(bearer(box))
    for answer in (
        await page.get("/v1/models"),
        await page.post(CHAT, json={**ASK, "stream": stream}),
        await page.post(CHAT + "?asgi", json={**ASK, "stream": stream}),
    ):
        assert answer.status_code == 200
        assert answer.headers.get_list("access-control-allow-origin") == [PAGE]
        assert "m" in answer.text
    record = await box.record()
    assert (record.status, record.completion_tokens) == (200, 2)


async def test_a_listed_page_reads_errors(
    box: Box, page: httpx.AsyncClient, upstream: ScriptedServer
) -> None:
    nobody = await page.post(CHAT, json=ASK)
    page.headers.update(bearer(box))
    none = await page.post(CHAT, json={**ASK, "model": "none"})
    bad = await page.post(CHAT, content=b"{")
    upstream.reply = Reply.json({"error": {"message": "slow down"}}, status=429)
    busy = await page.post(CHAT, json=ASK)
    told = (nobody, none, bad, busy)
    assert [answer.status_code for answer in told] == [401, 404, 400, 429]
    for answer in told:
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.json()["error"]["message"]


async def test_a_listed_page_may_use_v1_and_nothing_else(box: Box, page: httpx.AsyncClient) -> None:
    asked = {"access-control-request-method": "GET"}
    for path in ("/api/status", "/healthz", "/", "/v1", "/v1x/models"):
        for answer in (
            await page.options(path, headers=asked),
            await page.get(path, headers=bearer(box)),
        ):
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers


async def test_the_browsers_sign_in_is_no_key_for_a_listed_page(
    box: Box, page: httpx.AsyncClient
) -> None:
    """Pages of other ports of one host share its cookies."""
    cookie = {"cookie": f"{COOKIE_NAME}={make_cookie(box.token, time.time())}"}
    own = await box.http.get(
        "/v1/models", headers={**cookie, "origin": box.url, "authorization": ""}
    )
    assert own.status_code == 200
    assert (await page.get("/v1/models", headers=cookie)).status_code == 401
    assert (await page.post(CHAT, json=ASK, headers=cookie)).status_code == 401


@pytest.mark.parametrize(
    "origin", ["http://localhost:3001", "https://localhost:3000", f"{PAGE}.evil.example", "null"]
)
async def test_other_pages_may_nothing(box: Box, page: httpx.AsyncClient, origin: str) -> None:
    headers = {"origin": origin, "access-control-request-method": "POST"}
    for answer in (
        await page.options(CHAT, headers=headers),
        await page.post(CHAT, json=ASK, headers={**headers, **bearer(box)}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")
        assert "access-control-allow-origin" not in answer.headers


async def test_a_listed_page_under_a_foreign_name_may_nothing(
    box: Box, page: httpx.AsyncClient
) -> None:
    answer = await page.get("/v1/models", headers={**bearer(box), "host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_host")


async def test_without_the_setting_no_page_is_let_in_and_it_counts_at_once(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    ask = {"origin": PAGE, "access-control-request-method": "POST"}
    async with start_box(endpoint(upstream)) as box:
        assert (await box.http.options(CHAT, headers=ask)).status_code == 403
        assert (await box.http.post(CHAT, json=ASK, headers={"origin": PAGE})).status_code == 403
        config = endpoint(upstream) + f'[gateway]\ncors_origins = ["{PAGE}"]\n'
        box.folders.config_file.write_text(config + f'[server]\ntoken = "{box.token}"\n')
        assert (await box.http.post("/api/config/reload")).status_code == 200
        assert (await box.http.options(CHAT, headers=ask)).status_code == 204
        assert (await box.http.post(CHAT, json=ASK, headers={"origin": PAGE})).status_code == 200
