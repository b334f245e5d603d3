"""The plugin keeps the contract."""

import asyncio
from pathlib import Path

from cerberus_core.testing import ScriptedServer, check_backends, check_package


def test_package() -> None:
    check_package("openai")


def test_no_endpoints_are_no_backends(tmp_path: Path) -> None:
    assert asyncio.run(check_backends("openai", tmp_path)) == {}


def test_each_endpoint_is_a_backend(tmp_path: Path) -> None:
    async def run() -> dict[str, list[str]]:
        async with ScriptedServer(models=["org/a", "b:7b"]) as server:
            settings = {
                "endpoints": {
                    "box.2": {"base_url": server.base_url},
                    "named": {"base_url": server.base_url, "models": ["x"]},
                    "down": {"base_url": "http://127.0.0.1:1/v1"},
                }
            }
            backends = await check_backends("openai", tmp_path, settings)
            del backends["down"]
            return {
                name: [model.id for model in await backend.list()]
                for name, backend in backends.items()
            }

    assert asyncio.run(run()) == {"box.2": ["box.2/org/a", "box.2/b:7b"], "named": ["named/x"]}
