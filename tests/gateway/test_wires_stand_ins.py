"""Each wire over the stand-ins of Ollama and LM Studio."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import Box, StartBox
from tests.stand_ins import PLUGINS, stand_in

pytestmark = pytest.mark.anyio

KINDS = [
    pytest.param(name, marks=pytest.mark.backend(name))
    for name in ("ollama", "lmstudio")
    if (PLUGINS / f"cerberus-{name}").exists()
]


@pytest.fixture(params=KINDS)
async def served(
    start_box: StartBox, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Box, str]]:
    """A daemon, and a model of the server."""
    name = request.param
    fake: Any = {"ollama": "FakeOllama", "lmstudio": "FakeLMStudio"}[name]
    async with getattr(stand_in(name, f"fake_{name}"), fake)() as server:
        server.install("m:1", 1 << 20)
        config = (
            'blocked_plugins = ["llamacpp", "hello", "amd", "nvidia", "rapl"]\n'
            f'[plugins.{name}]\nbase_url = "{server.url}"\n'
        )
        async with start_box(config) as box:
            yield box, f"{name}/m:1"


SAID = [{"role": "user", "content": "hi"}]
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


async def asked(served: tuple[Box, str], path: str, **body: Any) -> tuple[Any, str]:
    """(the whole answer, a stream's text)"""
    box, model = served
    whole = await box.http.post(path, json={"model": model, **body})
    assert whole.status_code == 200, whole.text
    stream = await box.http.post(path, json={"model": model, **body, "stream": True})
    assert stream.status_code == 200, stream.text
    return whole.json(), stream.text


@pytest.mark.wire("chat", "whole", "a stream")
async def test_chat(served: tuple[Box, str]) -> None:
    whole, stream = await asked(served, CHAT, messages=SAID)
    assert whole["choices"][0]["message"]["content"] == "Hello"
    assert '"Hel"' in stream
    assert stream.endswith("data: [DONE]\n\n")


@pytest.mark.wire("messages", "whole", "a stream")
async def test_messages(served: tuple[Box, str]) -> None:
    whole, stream = await asked(served, MESSAGES, messages=SAID, max_tokens=9)
    assert (whole["content"][0]["text"], whole["model"]) == ("Hello", served[1])
    assert '"Hel"' in stream
    assert "event: message_stop" in stream


@pytest.mark.wire("responses", "whole", "a stream")
async def test_responses(served: tuple[Box, str]) -> None:
    whole, stream = await asked(served, RESPONSES, input="hi")
    assert whole["output"][0]["content"][0]["text"] == "Hello"
    assert '"Hel"' in stream
    assert "event: response.completed" in stream


@pytest.mark.wire("models", "the list", "one of them")
async def test_models(served: tuple[Box, str]) -> None:
    box, model = served
    assert [row["id"] for row in (await box.http.get("/v1/models")).json()["data"]] == [model]
    assert (await box.http.get(f"/v1/models/{model}")).json()["id"] == model
