"""The box: health, status, plugins, settings, and the description of it all."""

import json
from pathlib import Path
from typing import Any

import pytest

from cerberus_core.testing import ScriptedServer
from tests.conftest import Box, StartBox, endpoint
from tests.loading.conftest import Site, site

__all__ = ["site"]

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}


async def test_health_needs_no_token_and_tells_nothing(box: Box) -> None:
    answer = await box.http.get("/healthz", headers={"authorization": ""})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_status_is_one_flat_document(box: Box) -> None:
    await box.http.post("/v1/chat/completions", json=ASK)
    await box.record()
    status = (await box.http.get("/api/status")).json()
    flat = {key: value for key, value in status.items() if key != "warnings"}
    assert all(value is None or isinstance(value, str | int) for value in flat.values()), "flat"
    assert status["url"] == box.url
    assert (status["models"], status["models_loaded"]) == (1, 0)  # served elsewhere: not ours
    assert (status["requests_in_flight"], status["requests_total"]) == (0, 1)
    assert (status["plugins_failed"], status["warnings"]) == (0, [])
    assert (status["gpus"], status["gpu_power_w"], status["cpu_energy_j"]) == (0, None, None)


async def test_c04_a_broken_plugin_shows_with_cause_and_remedy_and_the_rest_works(
    start_box: StartBox, upstream: ScriptedServer, site: Site
) -> None:
    site.add("aaa", "raise ImportError('no libgpu here')")
    site.add("quits", "raise SystemExit(3)")
    async with start_box(endpoint(upstream)) as box:
        rows = (await box.http.get("/api/plugins")).json()["plugins"]
        by_name = {row["name"]: row for row in rows}
        assert by_name["openai"]["state"] == "loaded"
        assert by_name["openai"]["provides"] == ["backend up"]
        assert by_name["llamacpp"]["state"] == "blocked"
        broken = by_name["aaa"]
        assert (broken["state"], broken["distribution"]) == ("failed", "cerberus-aaa")
        assert "no libgpu here" in broken["problem"]
        assert "blocked_plugins" in broken["hint"]
        assert by_name["quits"]["state"] == "failed"
        status = (await box.http.get("/api/status")).json()
        assert status["plugins_failed"] == 2
        answer = await box.http.post("/v1/chat/completions", json=ASK)
        assert answer.json()["choices"][0]["message"]["content"] == "hi"


async def test_what_needs_a_person_is_told_with_what_to_do(start_box: StartBox, site: Site) -> None:
    site.add("aaa", "raise ImportError('no libgpu here')")
    settings = (
        'blocked_plugins = ["llamacpp"]\n[server]\nprot = 1\n'
        "[plugins.openai.endpoints.up]\n"
        'base_url = "http://127.0.0.1:9/v1"\n'
    )
    async with start_box(settings) as box:
        await box.http.get("/api/models")
        notices = (await box.http.get("/api/notices")).json()["notices"]
        told = {notice["text"]: notice["hint"] for notice in notices}
        prot, down, broken = told
        assert "server.prot" in prot
        assert str(box.folders.config_file) in told[prot]
        assert down.startswith("up: no answer from http://127.0.0.1:9/v1")
        assert told[down].startswith("Is it running?")
        assert broken.startswith("The plugin aaa could not start: ")
        assert "no libgpu here" in broken
        assert "blocked_plugins" in told[broken]


async def test_nothing_needs_a_person_while_all_is_well(box: Box) -> None:
    assert (await box.http.get("/api/notices")).json() == {"notices": []}


async def test_config_is_shown_without_any_secret(
    start_box: StartBox, upstream: ScriptedServer
) -> None:
    more = 'api_key = "sk-very-secret"\nheaders = { "x-org" = "hdr-very-secret" }\n'
    async with start_box(endpoint(upstream, more=more)) as box:
        answer = await box.http.get("/api/config")
        shown = answer.json()
    for secret in (box.token, "sk-very-secret", "hdr-very-secret"):
        assert secret not in answer.text
    assert shown["config"]["server"]["token"] in (None, "set")
    up = shown["config"]["plugins"]["openai"]["endpoints"]["up"]
    assert (up["api_key"], up["headers"]["x-org"]) == ("set", "set")
    assert up["base_url"] == upstream.base_url
    assert shown["file"] == str(box.folders.config_file)


async def test_a_misspelt_setting_is_a_warning_everywhere(start_box: StartBox) -> None:
    async with start_box('blocked_plugins = ["llamacpp"]\n[server]\nprot = 1\n') as box:
        [warning] = (await box.http.get("/api/config")).json()["warnings"]
        assert "server.prot" in warning
        assert "port" in warning
        assert warning in (await box.http.get("/api/status")).json()["warnings"]


async def test_the_description_needs_a_token_and_is_the_committed_one(box: Box) -> None:
    refused = await box.http.get("/api/openapi.json", headers={"authorization": ""})
    assert refused.status_code == 401
    served = (await box.http.get("/api/openapi.json")).json()
    committed = Path(__file__).parents[2] / "web" / "openapi.json"
    assert served == json.loads(committed.read_text())


async def test_answers_carry_safe_headers_and_are_never_stored(box: Box) -> None:
    answers = [
        await box.http.get("/api/status"),
        await box.http.get("/api/nothing"),
        await box.http.get("/api/status", headers={"authorization": ""}),
        await box.http.get("/healthz"),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_head_is_get_without_a_body(box: Box) -> None:
    for path in ("/api/status", "/healthz", "/api/events", "/", "/v1/models"):
        answer = await box.http.head(path)  # of the endless stream as well
        assert (answer.status_code, answer.content) == (200, b""), path


async def test_head_needs_the_token_too(box: Box) -> None:
    answer = await box.http.head("/api/status", headers={"authorization": ""})
    assert answer.status_code == 401


async def test_options_tell_what_is_allowed_and_open_nothing_to_foreign_pages(box: Box) -> None:
    answer = await box.http.options("/api/status")
    assert answer.status_code == 204
    assert "GET" in answer.headers["allow"]
    preflight = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    for path in ("/api/models", "/v1/chat/completions", "/api/login", "/"):
        refused = await box.http.options(path, headers=preflight)
        assert refused.status_code == 403, path
        assert "access-control-allow-origin" not in refused.headers
