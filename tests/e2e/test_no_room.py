"""A model without room, as clients see it: what is missing, who holds it, whether to come back."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.conftest import StartBox
from tests.stand_ins import stand_in

pytestmark = pytest.mark.anyio

CONFIG = """
blocked_plugins = ["hello", "llamacpp", "lmstudio", "openai", "amd", "nvidia", "rapl"]
[engines]
memory_mib = 500
[models."ollama/keeper:1b"]
pinned = true
[plugins.ollama]
base_url = "{url}"
"""


def ask(model: str, *, stream: bool = False) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": stream}


@pytest.fixture
async def ollama() -> AsyncIterator[Any]:
    async with stand_in("ollama", "fake_ollama").FakeOllama() as server:
        server.overhead = 0
        for name, mib in (("keeper:1b", 284), ("other:1b", 384), ("huge:1b", 984)):
            server.install(name, mib << 20, ctx=128)  # 16 MiB for its context
        yield server


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_missing_and_who_holds_it_is_told(
    start_box: StartBox, ollama: Any, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    free_mib = 4000
    monkeypatch.setattr("cerberus_core.engines.pools.host_memory", lambda: (4000, free_mib))
    async with start_box(CONFIG.format(url=ollama.url)) as box:

        async def refused(model: str) -> Any:
            body = ask(model, stream=stream)
            answer = await box.http.post("/v1/chat/completions", json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (503, "no_room")
            assert error["type"] == "unavailable_error"
            assert "models plan" in error["hint"]
            return error["message"], answer.headers.get("retry-after")

        words, later = await refused("ollama/huge:1b")
        assert "500 MiB of host are missing" in words
        assert "all models together may take 500 MiB of it" in words
        assert later is None, "waiting doesn't help"

        free_mib = 250
        words, later = await refused("ollama/other:1b")
        assert "150 MiB of host are missing" in words
        assert "other programs hold 3750 MiB of it" in words
        assert later == "10"

        free_mib = 4000
        answer = await box.http.post("/v1/chat/completions", json=ask("ollama/keeper:1b"))
        assert answer.status_code == 200
        words, later = await refused("ollama/other:1b")
        assert "ollama/keeper:1b is pinned" in words
        assert later is None
        async with openai.AsyncOpenAI(
            base_url=f"{box.url}/v1", api_key=box.token, max_retries=0
        ) as client:
            with pytest.raises(openai.InternalServerError, match="keeper") as caught:
                await client.chat.completions.create(**ask("ollama/other:1b", stream=stream))
            assert caught.value.code == "no_room"
        assert list(ollama.loaded) == ["keeper:1b"]
