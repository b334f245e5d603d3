"""Whole answers of Ollama and LM Studio: the same as theirs, and with their speed."""

from typing import Any

import httpx
import openai
import pytest

from tests.conftest import StartBox
from tests.stand_ins import stand_in

pytestmark = pytest.mark.anyio

CONFIG = """
blocked_plugins = ["hello", "llamacpp", "openai", "amd", "nvidia", "rapl"]
[plugins.{name}]
base_url = "{url}"
"""
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("name", "server", "model"),
    [("ollama", "FakeOllama", "m:1"), ("lmstudio", "FakeLMStudio", "m")],
)
async def test_a_whole_answer_is_the_servers_own_and_has_a_speed(
    start_box: StartBox, name: str, server: str, model: str
) -> None:
    async with getattr(stand_in(name, f"fake_{name}"), server)() as fake:
        fake.install(model)
        fake.word_s = 0.02
        async with start_box(CONFIG.format(name=name, url=fake.url)) as box:
            ask = {**ASK, "model": f"{name}/{model}"}
            ours = (await box.http.post("/v1/chat/completions", json=ask)).json()
            record = await box.record()
            asked = fake.bodies("POST /v1/chat/completions")[-1]
            assert asked["stream"] is True
            async with httpx.AsyncClient(base_url=fake.url) as direct:
                body = {**ASK, "model": asked["model"]}
                its = (await direct.post("/v1/chat/completions", json=body)).json()
            assert ours["usage"].pop("cerberus")["tok_per_sec"] is not None
            assert {**ours, "model": its["model"]} == its
            assert record.tok_per_sec is not None
            assert record.ttft_ms is not None
            assert (record.prompt_tokens, record.completion_tokens) == (3, 2)
            assert not record.tokens_counted
            client = openai.AsyncOpenAI(base_url=f"{box.url}/v1", api_key=box.token, max_retries=0)
            async with client:
                told = await client.chat.completions.create(
                    model=f"{name}/{model}", messages=[{"role": "user", "content": "hi"}]
                )
            assert told.choices[0].message.content == "Hello"
            assert told.choices[0].finish_reason == "stop"
            assert told.usage is not None
            assert told.usage.total_tokens == 5
