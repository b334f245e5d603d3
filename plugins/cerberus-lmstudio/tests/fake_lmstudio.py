"""A stand-in for LM Studio's server and its program `lms`, with states that tests set.

Shapes are those of github.com/lmstudio-ai/docs, the page of each named below
(`rest/` is `1_developer/2_rest/`, `cli/` is `3_cli/0_local-models/`).
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from cerberus_core.testing import Answer, Asked, Talker

GB = 1_000_000_000
_LMS = """#!{python}
import json, sys, urllib.request
data = json.dumps(sys.argv[1:]).encode()
with urllib.request.urlopen(urllib.request.Request("{url}/lms", data=data)) as answer:
    told = json.load(answer)
print(told["out"])
sys.exit(told["code"])
"""


class FakeLMStudio(Talker):
    """`async with FakeLMStudio() as fake:`; serves at `fake.url`."""

    cancels = False

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, dict[str, Any]] = {}
        self.instances: dict[str, tuple[str, int]] = {}
        """Instance → (key, context)."""
        self.apis = {"v1", "v0"}
        self.token: str | None = None
        self.commands: list[list[str]] = []
        self.load_gate: asyncio.Event | None = None
        self.load_begun = asyncio.Event()
        self.lms_fails: str | None = None
        self.id_field = "instance_id"

    def install(
        self, key: str, kind: str = "llm", *, vision: bool = False, size: int = 4 << 30
    ) -> None:
        self.models[key] = {"type": kind, "vision": vision, "size": size}

    def lms(self, folder: Path) -> str:
        """The program, written into `folder`."""
        path = folder / "lms"
        path.write_text(_LMS.format(python=sys.executable, url=self.url))
        os.chmod(path, 0o755)
        return str(path)

    async def handle(self, asked: Asked, out: Answer) -> None:
        if asked.path == "/lms":  # the program, which is no request of HTTP
            code, said = await self._command(asked.body)
            await out.json({"code": code, "out": said})
        else:
            await super().handle(asked, out)

    async def answer(self, asked: Asked, out: Answer) -> None:
        what, body = asked.what, asked.body
        if self.token is not None and asked.headers.get("authorization") != f"Bearer {self.token}":
            await out.json({"error": {"message": "Malformed LM Studio API token"}}, 401)
            return
        known = any(f"/api/{api}/" in what for api in self.apis)
        if known and what == "GET /api/v1/models":  # rest/list.md
            await out.json({"models": [self._v1(key) for key in self.models]})
        elif known and what == "GET /api/v0/models":  # rest/endpoints.md
            await out.json({"object": "list", "data": self._v0()})
        elif known and what == "POST /api/v1/models/load":  # rest/load.md
            await self._load(out, body)
        elif known and what == "POST /api/v1/models/unload":  # rest/unload.md
            self.leaves(body["instance_id"])
            if self.instances.pop(body["instance_id"], None) is None:
                await out.json({"error": {"message": "No such instance"}}, 404)
            else:
                await out.json({"instance_id": body["instance_id"]})
        elif what == "POST /v1/chat/completions":  # OpenAI's
            if body["model"] in self.instances:
                await self.talk(out, body)
            else:
                missing = f"No model {body['model']} is loaded"
                await out.json({"error": {"message": missing}}, 404)
        else:
            await out.json({"error": f"Unexpected endpoint or method. ({what})"})

    def _v1(self, key: str) -> dict[str, Any]:
        model = self.models[key]
        row = {
            "type": model["type"],
            "publisher": "lmstudio-community",
            "key": key,
            "display_name": key.title(),
            "quantization": {"name": "Q4_0", "bits_per_weight": 4},
            "size_bytes": model["size"],
            "params_string": "7B",
            "loaded_instances": [
                {"id": name, "config": {"context_length": ctx}}
                for name, (of, ctx) in self.instances.items()
                if of == key
            ],
            "max_context_length": 32768,
            "format": "gguf",
        }
        if model["type"] == "llm":
            row["capabilities"] = {"vision": model["vision"], "trained_for_tool_use": False}
        return row

    def _v0(self) -> list[dict[str, Any]]:
        rows = []
        for key, model in self.models.items():
            kind = {"embedding": "embeddings"}.get(model["type"], "llm")
            there = [name for name, (of, _) in self.instances.items() if of == key]
            for name in there or [key]:
                rows.append(
                    {
                        "id": name,
                        "object": "model",
                        "type": "vlm" if model["vision"] else kind,
                        "publisher": "lmstudio-community",
                        "arch": "llama",
                        "compatibility_type": "gguf",
                        "quantization": "Q4_K_M",
                        "state": "loaded" if there else "not-loaded",
                        "max_context_length": 131072,
                    }
                )
        return rows

    async def _load(self, out: Answer, body: Any) -> None:
        self.load_begun.set()
        if self.load_gate is not None:
            await self.load_gate.wait()
        key, ctx = body["model"], body.get("context_length", 4096)
        if key not in self.models:
            await out.json({"error": {"message": f"Model {key} not found"}}, 404)
            return
        await asyncio.sleep(self.load_s)
        told = {
            "type": self.models[key]["type"],
            self.id_field: self._add(key, key, ctx),
            "load_time_seconds": 9.099,
            "status": "loaded",
        }
        if body.get("echo_load_config"):
            told["load_config"] = {"context_length": ctx}
        await out.json(told)

    def _add(self, key: str, name: str, ctx: int) -> str:
        """A second load is a second instance, `name:2`."""
        number, first = 1, name
        while name in self.instances:
            number += 1
            name = f"{first}:{number}"
        self.instances[name] = (key, ctx)
        self.loads[key] += 1
        return name

    async def _command(self, arguments: list[str]) -> tuple[int, str]:
        self.commands.append(arguments)
        if self.lms_fails is not None:
            return 1, self.lms_fails
        match arguments:
            case ["load", key, "--estimate-only", *_]:  # cli/load.md
                size = "Estimated GPU Memory:   2.10 GB\nEstimated Total Memory: 5.25 GB"
                verdict = "Estimate: This model may be loaded based on your resource guardrails."
                return 0, f"Model: {key}\n{size}\n\n{verdict}"
            case ["load", key, "--identifier", name, "--yes", *more]:  # cli/load.md
                ctx = int(more[more.index("--context-length") + 1]) if more else 4096
                self._add(key, name, ctx)
                return 0, "Model loaded successfully in 9.10s."
            case ["unload", name]:  # cli/load.md
                self.instances.pop(name, None)
                return 0, f"Model {name} unloaded."
        return 1, "error: unknown command"
