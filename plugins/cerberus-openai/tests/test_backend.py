"""Discovery, keys and what is handed to the gateway."""

from typing import Any

import anyio
import pytest
from cerberus_openai.backend import KEEP_FAILURE_S, KEEP_LIST_S, OpenAIBackend
from cerberus_openai.settings import EndpointSettings

from cerberus_core.errors import LoadFailed, Unavailable
from cerberus_core.testing import ScriptedServer
from cerberus_core.values import LoadPlan

pytestmark = pytest.mark.anyio


def make(base_url: str, **more: Any) -> OpenAIBackend:
    return OpenAIBackend("up", EndpointSettings(base_url=base_url, **more))


async def names(backend: OpenAIBackend) -> list[str]:
    return [model.name for model in await backend.list()]


async def test_the_endpoints_models_are_listed() -> None:
    async with ScriptedServer(models=["org/a:q4", "模型"]) as server:
        first, second = await make(server.base_url + "/").list()
    assert (first.id, first.name, first.backend) == ("up/org/a:q4", "org/a:q4", "up")
    assert (first.local, first.managed, first.state, first.ctx) == (True, False, "ready", None)
    assert second.id == "up/模型"


@pytest.mark.parametrize(
    ("row", "ctx"),
    [
        ({"context_length": 8192}, 8192),  # OpenRouter, Together
        ({"max_model_len": 4096}, 4096),  # vLLM
        ({"context_window": 2048}, 2048),  # Groq
        ({"max_context_length": 1024}, 1024),  # Mistral
        ({"context_length": None, "max_model_len": 512}, 512),
        ({"context_length": "8192"}, None),
        ({"context_length": True, "max_model_len": -1, "context_window": 1 << 60}, None),
        ({}, None),
    ],
)
async def test_the_context_is_found_under_every_usual_name(
    listing: Any, row: dict[str, Any], ctx: int | None
) -> None:
    listing.models({"id": "m", **row})
    [model] = await make(listing.base_url).list()
    assert model.ctx == ctx
    assert (await make(listing.base_url).load(model, LoadPlan(), lambda _: None)).ctx == ctx


async def test_the_list_is_kept_for_five_minutes() -> None:
    now = 1000.0
    async with ScriptedServer(models=["a"]) as server:
        settings = EndpointSettings(base_url=server.base_url)
        backend = OpenAIBackend("up", settings, monotonic=lambda: now)
        assert await names(backend) == ["a"]
        server.models = ["a", "b"]
        now += KEEP_LIST_S
        assert await names(backend) == ["a"]
        now += 1
        assert await names(backend) == ["a", "b"]


async def test_a_failure_is_told_for_some_seconds_without_asking_again(listing: Any) -> None:
    now = 1000.0
    settings = EndpointSettings(base_url=listing.base_url)
    backend = OpenAIBackend("up", settings, monotonic=lambda: now)
    listing.status = 500
    for _ in range(3):
        with pytest.raises(Unavailable, match="answered 500"):
            await backend.list()
        now += KEEP_FAILURE_S / 3
    assert len(listing.asked) == 1
    listing.status = 200
    listing.models({"id": "m"})
    now += KEEP_FAILURE_S
    assert await names(backend) == ["m"]


async def test_models_named_in_the_settings_are_not_asked_for(listing: Any) -> None:
    assert await names(make(listing.base_url, models=["x", "y"])) == ["x", "y"]
    assert listing.asked == []


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({}, "plugins.openai.endpoints.up.api_key"),
        ({"api_key": "sk-1"}, "plugins.openai.endpoints.up.api_key"),
        ({"api_key_env": "UP_KEY"}, "UP_KEY"),
    ],
)
async def test_a_refused_key_names_its_setting(
    listing: Any, monkeypatch: pytest.MonkeyPatch, status: int, more: dict[str, str], setting: str
) -> None:
    monkeypatch.setenv("UP_KEY", "sk-1")
    listing.status = status
    listing.body = b'{"error": "wrong key sk-1"}'
    with pytest.raises(Unavailable) as caught:
        await make(listing.base_url, **more).list()
    assert setting in (caught.value.hint or "")
    assert "sk-1" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"not found"),
        (500, b'{"data": []}'),
        (200, b"<html></html>"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"data": null}'),
        (200, b'{"data": ["m"]}'),
        (200, b'{"data": [{"name": "m"}]}'),
        (200, b"\xff"),
    ],
)
async def test_an_answer_without_a_list_says_what_to_do(
    listing: Any, status: int, body: bytes
) -> None:
    listing.status, listing.body = status, body
    with pytest.raises(Unavailable, match=f"answered {status}") as caught:
        await make(listing.base_url).list()
    assert "/v1" in (caught.value.hint or "")


async def test_g19_a_redirected_list_does_not_take_the_key_along(listing: Any) -> None:
    async with ScriptedServer() as elsewhere:
        listing.status = 307
        listing.more = f"location: {elsewhere.base_url}/models\r\n"
        with pytest.raises(Unavailable, match="answered 307"):
            await make(listing.base_url, api_key="sk-1").list()
        assert elsewhere.connections == 0


async def test_an_endpoint_that_is_down_is_told_quickly() -> None:
    async with ScriptedServer() as server:
        base_url = server.base_url
    with anyio.fail_after(2), pytest.raises(Unavailable, match="no answer") as caught:
        await make(base_url).list()
    assert caught.value.hint


async def test_the_key_and_own_headers_are_sent(listing: Any) -> None:
    listing.models({"id": "m"})
    backend = make(listing.base_url, api_key="sk-1", headers={"X-Team": "blue"})
    [model] = await backend.list()
    [asked] = listing.asked
    assert asked[""] == "GET /v1/models HTTP/1.1"
    assert (asked["authorization"], asked["x-team"]) == ("Bearer sk-1", "blue")
    place = await backend.load(model, LoadPlan(), lambda _: None)
    assert place.base_url == listing.base_url
    assert (place.model, place.backend, place.local) == ("m", "up", True)
    assert place.headers == {"authorization": "Bearer sk-1", "x-team": "blue"}
    assert "sk-1" not in repr(place)
    assert "sk-1" not in repr(backend)


async def test_without_a_key_no_authorization_is_sent(listing: Any) -> None:
    await make(listing.base_url).list()
    assert "authorization" not in listing.asked[0]


async def test_the_key_is_read_from_the_environment(
    listing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing.models({"id": "m"})
    monkeypatch.setenv("UP_KEY", "sk-env\n")
    backend = make(listing.base_url, api_key_env="UP_KEY")
    [model] = await backend.list()
    assert (await backend.available()).ok
    assert listing.asked[0]["authorization"] == "Bearer sk-env"
    monkeypatch.delenv("UP_KEY")
    told = await backend.available()
    assert not told.ok
    assert "UP_KEY" in (told.hint or "")
    with pytest.raises(LoadFailed) as caught:
        await backend.load(model, LoadPlan(), lambda _: None)
    assert "UP_KEY" in (caught.value.hint or "")


async def test_an_unset_key_is_told_before_anything_is_asked(listing: Any) -> None:
    with pytest.raises((LoadFailed, Unavailable)) as caught:
        await make(listing.base_url, api_key_env="SURELY_UNSET").list()
    assert "SURELY_UNSET" in (caught.value.hint or "")
    assert listing.asked == []
