"""Every error of the API is problem+json with a stable code, and a hint on what to do."""

from typing import Any

import pytest

from cerberus_core import errors
from cerberus_core.errors import AlreadyRunning
from cerberus_core.gateway.answers import status_of
from tests.conftest import Box

pytestmark = pytest.mark.anyio

CASES: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/api/nothing", None, 404, "not_found"),
    ("GET", "/nothing", None, 404, "not_found"),
    ("PUT", "/api/status", None, 405, "method_not_allowed"),
    ("DELETE", "/healthz", None, 405, "method_not_allowed"),
    ("GET", "/api/requests?limit=0", None, 400, "bad_request"),
    ("GET", "/api/requests?limit=many", None, 400, "bad_request"),
    ("GET", "/api/usage?since=yesterday", None, 400, "bad_request"),
    ("GET", "/api/requests/none-such", None, 404, "not_found"),
    ("POST", "/api/login", b"{bad", 400, "bad_request"),
    ("POST", "/api/login", b"{}", 400, "bad_request"),
    ("POST", "/api/login", b'{"code": 5}', 400, "bad_request"),
    ("POST", "/api/login", b"[" * 100_000, 400, "bad_request"),
    ("POST", "/api/login", b'{"code": "\xff"}', 400, "bad_request"),
    ("POST", "/api/login", b'{"code": "WRONG"}', 401, "bad_code"),
    ("POST", "/api/login", b'{"code": "' + b"x" * (11 << 20) + b'"}', 413, "request_too_large"),
    ("POST", "/api/models/load/up/nope", None, 404, "model_not_found"),
    ("POST", "/api/models/load/", None, 404, "not_found"),
    ("POST", "/api/nothing", None, 404, "not_found"),
    ("GET", "/api", None, 404, "not_found"),
    ("POST", "/api/models/load", None, 404, "not_found"),
    ("POST", "/api/models/load/up/m?wait=perhaps", None, 400, "bad_request"),
    ("POST", "/api/models/unload/up/m", None, 400, "unsupported"),
    ("DELETE", "/api/models/up/m", None, 400, "unsupported"),
    ("DELETE", "/api/models/up/nope", None, 404, "model_not_found"),
]


async def test_an_error_has_status_code_and_words(box: Box) -> None:
    for method, path, body, status, code in CASES:
        answer = await box.http.request(
            method, path, content=body, headers={"content-type": "application/json"}
        )
        case = f"{method} {path} {str(body)[:30]}"
        assert answer.headers["content-type"] == "application/problem+json", case
        problem = answer.json()
        told = (answer.status_code, problem["status"], problem["code"])
        assert told == (status, status, code), case
        assert problem["title"], case
        assert set(problem) == {"type", "title", "status", "detail", "code", "hint"}
        assert problem["hint"], f"{case}: says what to do"


async def test_a_wrong_parameter_is_named(box: Box) -> None:
    problem = (await box.http.get("/api/requests?limit=0")).json()
    assert "limit" in problem["detail"]


async def test_a_wrong_method_is_told_the_right_ones(box: Box) -> None:
    answer = await box.http.put("/api/status")
    assert {"GET", "HEAD"} <= set(answer.headers["allow"].split(", "))


async def test_a_fault_of_ours_is_a_500_that_shows_no_secrets(
    box: Box, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("with a secret inside")

    monkeypatch.setattr("cerberus_core.usage.Store.recent", broken)
    answer = await box.http.get("/api/requests")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (500, "error")
    assert "secret" not in answer.text
    assert "log" in problem["hint"]
    assert "with a secret inside" in "".join(capsys.readouterr())


async def test_an_error_has_the_status_that_the_gateway_gives_it_and_says_when_to_try_again(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = errors.EngineLost("the engine of up/m ended")
    error.retry_after_s = 7

    async def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("cerberus_core.engines.Manager.load", fails)
    answer = await box.http.post("/api/models/load/up/m")
    assert (answer.status_code, answer.headers["retry-after"]) == (502, "7")
    error.retry_after_s = None
    assert "retry-after" not in (await box.http.post("/api/models/load/up/m")).headers


def test_every_kind_of_error_has_its_status() -> None:
    expected = {
        "AccessDenied": 401,
        "AddressInUse": 500,
        "AddressRefused": 500,
        "AlreadyRunning": 409,
        "BadRequest": 400,
        "CerberusError": 500,
        "ConfigError": 400,
        "DaemonUnreachable": 503,
        "EngineLost": 502,
        "Forbidden": 403,
        "LimitReached": 429,
        "LoadFailed": 503,
        "ModelNotFound": 404,
        "NoRoom": 503,
        "NotFound": 404,
        "Overloaded": 429,
        "PluginError": 500,
        "Unavailable": 503,
        "Unsupported": 400,
        "UpstreamFailed": 502,
    }
    assert {name: status_of(getattr(errors, name)("x")) for name in errors.__all__} == expected
    assert status_of(AlreadyRunning("x")) == 409
