"""The browser's way in: a one-time code becomes a cookie."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie

import anyio
import httpx
import pytest

from cerberus_core.access import COOKIE_NAME, make_cookie
from tests.conftest import Box

pytestmark = pytest.mark.anyio


async def code_of(box: Box) -> str:
    answer = await box.http.post("/api/codes")
    assert answer.status_code == 201
    return str(answer.json()["code"])


@asynccontextmanager
async def browser(box: Box) -> AsyncIterator[httpx.AsyncClient]:
    """A client that has the cookie, and nothing else."""
    async with httpx.AsyncClient(base_url=box.url) as client:
        answer = await client.post("/api/login", json={"code": await code_of(box)})
        assert answer.status_code == 204
        yield client


async def test_the_link_carries_its_code_in_the_fragment(box: Box) -> None:
    made = (await box.http.post("/api/codes")).json()
    assert made["url"] == f"{box.url}/#code={made['code']}"
    assert box.token not in made["url"]


async def test_a_code_becomes_a_cookie_that_no_script_and_no_other_site_gets(box: Box) -> None:
    async with httpx.AsyncClient(base_url=box.url) as client:
        answer = await client.post("/api/login", json={"code": await code_of(box)})
        cookie = SimpleCookie(answer.headers["set-cookie"])[COOKIE_NAME]
        assert cookie["httponly"]
        assert cookie["samesite"].lower() == "strict"
        assert (cookie["path"], int(cookie["max-age"])) == ("/", 30 * 24 * 3600)
        assert box.token not in cookie.value
        assert (await client.get("/api/status")).status_code == 200
        assert (await client.get("/v1/models")).status_code == 200


async def test_a_code_works_once_and_never_twice_at_once(box: Box) -> None:
    code = await code_of(box)
    statuses: list[int] = []

    async def redeem() -> None:
        async with httpx.AsyncClient(base_url=box.url) as client:
            answer = await client.post("/api/login", json={"code": code})
            statuses.append(answer.status_code)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(redeem)
    assert sorted(statuses) == [204, 401, 401, 401, 401]


async def test_what_changes_something_needs_our_origin_beside_the_cookie(box: Box) -> None:
    async with browser(box) as client:
        for method, path in [
            ("POST", "/api/codes"),
            ("POST", "/api/models/load/up/m"),
            ("DELETE", "/api/models/up/m"),
            ("POST", "/v1/chat/completions"),
        ]:
            bare = await client.request(method, path)
            assert bare.status_code == 403, path
            for foreign in ("https://evil.example", "null", f"{box.url}.evil.example"):
                answer = await client.request(method, path, headers={"origin": foreign})
                assert answer.status_code == 403, (path, foreign)
        ours = await client.post("/api/codes", headers={"origin": box.url})
        assert ours.status_code == 201


async def test_logout_takes_the_cookie_away(box: Box) -> None:
    async with browser(box) as client:
        answer = await client.post("/api/logout", headers={"origin": box.url})
        assert answer.status_code == 204
        assert SimpleCookie(answer.headers["set-cookie"])[COOKIE_NAME]["max-age"] == "0"
        assert (await client.get("/api/status")).status_code == 401


@pytest.mark.parametrize("cookie", ["", "x", "1.2.3", 'a"b', "ü", "9" * 5000])
async def test_no_made_up_cookie_opens_anything(box: Box, cookie: str) -> None:
    async with httpx.AsyncClient(base_url=box.url) as client:
        header = f"{COOKIE_NAME}={cookie}".encode()
        answer = await client.get("/api/status", headers={b"cookie": header})
        assert answer.status_code == 401


async def test_a_cookie_of_another_token_is_worthless(box: Box) -> None:
    async with httpx.AsyncClient(base_url=box.url) as client:
        value = make_cookie("another-token", 4e9)
        answer = await client.get("/api/status", headers={"cookie": f"{COOKIE_NAME}={value}"})
        assert answer.status_code == 401


async def test_the_other_cookies_of_the_host_do_no_harm(box: Box) -> None:
    async with browser(box) as client:
        ours = client.cookies[COOKIE_NAME]
        header = f'odd="a; b"; {COOKIE_NAME}={ours}; theme=dark; json={{"a":1}}'
        answer = await client.get("/api/status", headers={"cookie": header})
        assert answer.status_code == 200
