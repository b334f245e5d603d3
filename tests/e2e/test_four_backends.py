"""Four backends behind one daemon: an engine of ours, two servers, an endpoint."""

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from cerberus_core.testing import ScriptedServer
from tests.conftest import Box, StartBox
from tests.e2e.conftest import MODEL, run_cli
from tests.stand_ins import stand_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

MIB = 1 << 20


@asynccontextmanager
async def four(start_box: StartBox, engine_config: str, upstream: Any) -> AsyncIterator[Box]:
    """`ollama/small:1` takes 1124 MiB, `lmstudio/m` 200, the starter model a few hundred;
    1400 are for all of them.
    """
    async with (
        stand_in("ollama", "fake_ollama").FakeOllama() as ollama,
        stand_in("lmstudio", "fake_lmstudio").FakeLMStudio() as lmstudio,
    ):
        ollama.install("small:1", 100 * MIB)
        ollama.install("huge:1", 40 << 30)
        lmstudio.install("m", size=200 * MIB)
        config = (
            f"{engine_config}[engines]\nmemory_mib = 1400\n"
            '[models."ollama/small:1"]\ncontext = 99\n[models."up/m"]\ngpu_layers = 1\n'
            f'[plugins.ollama]\nbase_url = "{ollama.url}"\n'
            f'[plugins.lmstudio]\nbase_url = "{lmstudio.url}"\n'
            f'[plugins.openai.endpoints.up]\nbase_url = "{upstream.base_url}"\nmodels = ["m"]\n'
        ).replace('["hello"]', '["hello", "amd", "nvidia", "rapl"]')
        async with start_box(config) as box:
            yield box


async def listed(box: Box) -> dict[str, tuple[str, str | None]]:
    """State, and what fits, of each model."""
    told = (await box.http.get("/api/models")).json()
    assert told["problems"] == []
    fits = {model: fit["says"] for model, fit in told["fits"].items()}
    return {row["id"]: (row["state"], fits.get(row["id"])) for row in told["models"]}


async def load(box: Box, model: str) -> None:
    answer = await box.http.post(f"/api/models/load/{model}", timeout=120)
    assert answer.status_code == 200, answer.text


async def command(box: Box, *args: str) -> Any:
    env = {
        "PATH": os.environ["PATH"],
        "CERBERUS_CONFIG": str(box.folders.config),
        "CERBERUS_DATA": str(box.folders.data),
    }
    return await anyio.to_thread.run_sync(run_cli, env, *args)


async def shown(box: Box) -> list[list[str]]:
    """The rows of `cerberus models ls`."""
    finished = await command(box, "models", "ls")
    assert finished.returncode == 0, finished.stderr
    return [re.split(" {2,}", line) for line in finished.stdout.splitlines()[2:]]


async def test_four_backends_at_once_share_one_memory_and_one_list(
    start_box: StartBox, engine_config: str, upstream: ScriptedServer, models_folder: Path
) -> None:
    async with four(start_box, engine_config, upstream) as box:
        assert await listed(box) == {
            MODEL: ("unloaded", "yes"),
            "lmstudio/m": ("unloaded", "yes"),
            "ollama/huge:1": ("unloaded", "no"),
            "ollama/small:1": ("unloaded", "yes"),
            "up/m": ("ready", None),
        }
        told = (await command(box, "doctor")).stdout
        assert '▲ models."ollama/small:1".context is not possible. Ollama has it' in told
        assert '▲ models."up/m".gpu_layers is not possible. up has no such thing.' in told
        await load(box, "lmstudio/m")
        await load(box, "ollama/small:1")
        assert await listed(box) == {
            MODEL: ("unloaded", "after"),
            "lmstudio/m": ("ready", "loaded"),
            "ollama/huge:1": ("unloaded", "no"),
            "ollama/small:1": ("ready", "loaded"),
            "up/m": ("ready", None),
        }
        rows = {row[0]: row[1:6] for row in await shown(box)}
        assert rows[MODEL][0] == "○ unloaded"
        assert rows[MODEL][-1].startswith("yes, 1 leave")
        assert rows["lmstudio/m"] == ["✓ ready", "200 MiB", "4096 / 32768", "chat", "loaded"]
        assert rows["ollama/small:1"][:2] == ["✓ ready", "100 MiB"]
        assert rows["ollama/huge:1"][-1] == "no: 40 GiB short"
        assert rows["up/m"] == ["✓ ready", "—", "— / —", "chat embed", "—"]
        for model in (MODEL, "up/m", "ollama/small:1"):
            answer = await box.http.post(
                "/v1/chat/completions",
                json={
                    "model": model,
                    "max_tokens": 2,
                    "messages": [{"role": "user", "content": "hi"}],
                },
                timeout=120,
            )
            assert answer.status_code == 200, json.dumps(answer.json())
