"""U08: the token stands in no log, no address and no Referer."""

from http.cookies import SimpleCookie
from typing import Any

import pytest

from cerberus_core.access import COOKIE_NAME
from cerberus_core.cli.logs import redact
from cerberus_core.config.secrecy import masked
from cerberus_core.testing import ScriptedServer
from tests.api.wires import raw
from tests.conftest import Box, StartBox, endpoint

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}


async def test_u08_the_query_form_is_refused(box: Box) -> None:
    for path in ("/api/status", "/api/events", "/v1/models", "/api/codes"):
        method = "POST" if path == "/api/codes" else "GET"
        for name in ("token", "access_token", "api_key", "code", "authorization"):
            for value in (box.token, f"Bearer%20{box.token}"):
                answer = await raw(box, f"{path}?{name}={value}", method=method)
                assert answer.status == 401
                assert box.token.encode() not in answer.body


async def test_u08_no_log_no_answer_and_no_upstream_sees_the_token(
    start_box: StartBox, upstream: ScriptedServer, capfd: pytest.CaptureFixture[str]
) -> None:
    async with start_box(endpoint(upstream)) as box:
        code = (await box.http.post("/api/codes")).json()["code"]
        login = await box.http.post(
            "/api/login", json={"code": code}, headers={"authorization": ""}
        )
        cookie = SimpleCookie(login.headers["set-cookie"])[COOKIE_NAME].value
        texts = []
        for method, path in [
            ("GET", "/"),
            ("GET", "/api/status"),
            ("GET", "/api/config"),
            ("GET", f"/api/status?token={box.token}"),
            ("PUT", "/api/status"),
            ("POST", "/api/models/load/nope"),
            ("GET", "/v1/models"),
        ]:
            answer = await box.http.request(method, path)
            texts.append(f"{answer.headers} {answer.text}")
        await box.http.post("/v1/chat/completions", json=ASK)
        await box.http.post("/v1/chat/completions", content=b"{bad")
        record = await box.record()
        for secret in (box.token, cookie):
            assert not any(secret in text for text in texts)
            assert secret not in str(upstream.requests)
            assert secret not in str(record)
        token = box.token
    said = "".join(capfd.readouterr())
    for secret in (token, cookie, code):
        assert secret not in said


def test_u08_what_a_log_line_might_carry_is_taken_out() -> None:
    line = redact(
        None,
        "",
        {
            "event": "refused Bearer abcdef123456 of a client",
            "api_key": "sk-1",
            "authorization": "Bearer x",
            "headers": {"Authorization": "Bearer abcdef123456", "x-api-key": "sk-2", "accept": "*"},
            "tried": ["Bearer abcdef123456", {"token": "t0ken"}],
        },
    )
    for secret in ("abcdef123456", "sk-1", "sk-2", "t0ken"):
        assert secret not in str(line)
    assert line["headers"] == "[removed]", "as in the settings, whatever they are named"


@pytest.mark.parametrize(
    ("key", "value"),
    [("api_key", "x"), ("hf-token", "x"), ("max_tokens", 5), ("api_key_env", "NAME"), ("key", "x"),
     ("headers", {"a": "b"}), ("model", "m"), ("cookies", "x"), ("pass", "x"), ("passwd", "x")],
)  # fmt: skip
def test_settings_and_logs_hide_the_same(key: str, value: Any) -> None:
    hidden_in_logs = redact(None, "", {key: value})[key] == "[removed]"
    assert hidden_in_logs == (masked({key: value})[key] != value)
