"""The stand-in answers Ollama's own client, which its author didn't write."""

from typing import Any

import pytest
from ollama import AsyncClient, ResponseError

pytestmark = pytest.mark.anyio


@pytest.fixture
def client(fake: Any) -> AsyncClient:
    return AsyncClient(host=fake.url)


async def test_list_ps_and_show(fake: Any, client: AsyncClient) -> None:
    fake.install("llava:latest", caps=["completion", "vision"])
    [row] = (await client.list()).models
    assert (row.model, row.size) == ("llava:latest", 4 << 30)
    assert row.details is not None
    assert (row.details.parameter_size, row.details.quantization_level) == ("7B", "Q4_0")
    assert (await client.ps()).models == []
    shown = await client.show("llava:latest")
    assert shown.capabilities == ["completion", "vision"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["llama.context_length"] == 131072


async def test_load_and_unload(fake: Any, client: AsyncClient) -> None:
    fake.install("m:1", vram=1 << 30)
    told = await client.generate(model="m:1", keep_alive=-1)
    assert (told.done, told.done_reason) == (True, "load")
    [there] = (await client.ps()).models
    assert (there.model, there.size, there.size_vram) == ("m:1", 5 << 30, 1 << 30)
    assert (there.context_length, there.expires_at and there.expires_at.year) == (4096, 2318)
    assert (await client.generate(model="m:1", keep_alive=0)).done_reason == "unload"
    assert (await client.ps()).models == []


async def test_embeddings_load_too(fake: Any, client: AsyncClient) -> None:
    fake.install("e:1", caps=["embedding"])
    with pytest.raises(ResponseError, match="does not support generate"):
        await client.generate(model="e:1")
    assert (await client.embed(model="e:1", input="", keep_alive=-1)).embeddings == []
    assert list(fake.loaded) == ["e:1"]


async def test_pull_and_delete(fake: Any, client: AsyncClient) -> None:
    statuses = [told.status async for told in await client.pull("qwen", stream=True)]
    assert (statuses[0], statuses[-1]) == ("pulling manifest", "success")
    assert (await client.delete("qwen:latest")).status == "success"
    with pytest.raises(ResponseError, match="not found") as caught:
        await client.delete("qwen:latest")
    assert caught.value.status_code == 404
