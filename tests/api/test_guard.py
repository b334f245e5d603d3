"""The guard stands before every route, HTTP and WebSocket: U01, U02, U03."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from litestar.routes import HTTPRoute

from cerberus_core.api.app import admin_app
from cerberus_core.api.guard import PUBLIC
from cerberus_core.gateway.request import REQUIRED
from tests.api.direct import TOKEN, handshake
from tests.api.wires import bearer, raw
from tests.conftest import Box, StartBox

FOREIGN = [
    None,
    "",
    "evil.example:7733",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
]
PLACES = [
    "/healthz",
    "/api/status",
    "/api/events",
    "/v1/models",
    "/",
    "/theme.js",
    "/api/login",
]


@pytest.mark.anyio
async def test_u01_foreign_names_are_refused_before_any_handler(box: Box) -> None:
    for path in PLACES:
        for host in FOREIGN:
            lines = [bearer(box), *([f"origin: http://{host}"] if host else [])]
            answer = await raw(box, path, host=host, lines=lines)
            assert answer.status == 403, (path, host)
            assert b"foreign_host" in answer.body


@pytest.mark.anyio
async def test_u01_two_hosts_are_nobodys(box: Box) -> None:
    for other in ("evil.example", "127.0.0.1"):
        answer = await raw(box, "/api/status", lines=[f"host: {other}", bearer(box)])
        assert answer.status in (400, 403)


@pytest.mark.anyio
async def test_u01_loopback_and_configured_names_work(start_box: StartBox) -> None:
    async with start_box('[server]\nallowed_hosts = ["box.lan"]\n') as box:
        for host in ("127.0.0.1", "localhost:7733", "[::1]:7733", "box.lan"):
            for path in ("/healthz", "/api/status", "/v1/models", "/"):
                answer = await raw(box, path, host=host, lines=[bearer(box)])
                assert answer.status == 200, (path, host)


@pytest.mark.anyio
async def test_a_page_of_another_origin_may_not_even_read(box: Box) -> None:
    for path in ("/healthz", "/api/status", "/v1/models", "/"):
        for origin in ("https://evil.example", "null", f"{box.url}.evil.example"):
            answer = await box.http.get(path, headers={"origin": origin})
            assert answer.status_code == 403
        ours = await box.http.get(path, headers={"origin": box.url})
        assert ours.status_code == 200


# Every route, from the router: a new one fails here until it is protected.


def routes() -> Iterator[tuple[str, str]]:
    for route in admin_app(None).routes:
        path = route.path_format.replace("{id}", "some/model").replace("{request_id}", "r1")
        methods = route.methods if isinstance(route, HTTPRoute) else ["websocket"]
        for method in sorted(set(methods) - {"OPTIONS"}):
            yield method, path
    yield from (("POST", path) for path in sorted(REQUIRED))
    yield from [("GET", "/v1/models"), ("GET", "/v1/models/some/model"), ("GET", "/v1/new")]


EVERY = sorted(set(routes()))


def test_u03_the_list_of_routes_is_no_empty_one() -> None:
    paths = {path for _, path in EVERY}
    assert {"/healthz", "/api/status", "/api/events", "/api/models/load/some/model"} <= paths
    assert "/api/openapi.json" in paths


def test_u03_the_public_list_is_written_down() -> None:
    assert {"/healthz", "/api/login"} == PUBLIC


WRONG = [None, "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"]


@pytest.fixture
async def direct(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The built application without a server, at loopback's name."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7733") as client:
        yield client


@pytest.mark.anyio
@pytest.mark.parametrize("authorization", WRONG)
async def test_u03_every_route_refuses_without_and_with_a_wrong_token(
    direct: httpx.AsyncClient, app: Any, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    opened = set()
    for method, path in EVERY:
        if method == "websocket":
            sent = await handshake(app, path, {})
            assert sent[0]["type"] == "websocket.close"
            continue
        answer = await direct.request(method, path, headers=headers)
        if answer.status_code != 401:
            opened.add(path)
            continue
        assert answer.headers["www-authenticate"] == "Bearer"
        problem = answer.json()
        told = problem.get("error") or problem
        said = told.get("message") or told["title"]
        assert "`cerberus token`" in said
        if path.startswith("/v1/messages"):
            assert told["details"]["error_code"] == "unauthenticated"
            assert "`cerberus url`" in said
        else:
            assert told["code"] == "unauthenticated"
            assert "`cerberus url`" in told["hint"]
    assert opened == PUBLIC


@pytest.mark.anyio
async def test_u03_what_is_no_route_is_refused_as_well(direct: httpx.AsyncClient) -> None:
    for path in (
        "/api/new",
        "/new",
        "/metrics",
        "/healthz/",
        "/healthz/x",
        "/api/login/",
    ):
        answer = await direct.get(path)
        assert answer.status_code == 401, path


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
async def test_u03_no_method_goes_round_the_guard(direct: httpx.AsyncClient, method: str) -> None:
    for path in ("/api/status", "/v1/models", "/v1/chat/completions"):
        answer = await direct.request(method, path)
        assert answer.status_code == 401, path
