"""The plugin keeps the contract, and its model says hello."""

import asyncio
from pathlib import Path

import httpx
import pytest

from cerberus_core.testing import check_backends, check_package
from cerberus_core.values import LoadPlan

ASK = {"model": "world", "messages": [{"role": "user", "content": "hi"}]}


def test_package() -> None:
    check_package("hello")


@pytest.mark.parametrize("stream", [False, True])
def test_it_says_hello(tmp_path: Path, stream: bool) -> None:
    async def run() -> str:
        backend = (await check_backends("hello", tmp_path, {"greeting": "Moin"}))["hello"]
        [model] = await backend.list()
        endpoint = await backend.load(model, LoadPlan(), lambda _progress: None)
        assert await backend.load(model, LoadPlan(), lambda _progress: None) == endpoint
        try:
            async with httpx.AsyncClient(timeout=10) as client:
                more = {"stream": stream, "stream_options": {"include_usage": True}}
                url = f"{endpoint.base_url}/chat/completions"
                answer = await client.post(url, json={**ASK, **more})
        finally:
            await backend.unload(model)
            await backend.aclose()
        assert answer.status_code == 200
        return answer.text

    text = asyncio.run(run())
    if stream:
        assert text.count("data: {") == 6
        assert text.endswith("data: [DONE]\n\n")
        assert '"completion_tokens": 4' in text
    else:
        assert '"content": "Moin, world!"' in text
