"""A stand-in for Ollama's server: its HTTP as documented, with states that tests set.

Shapes and words are those of `docs/api.md` and `server/routes.go` of
github.com/ollama/ollama, the place of each named below. `/v1` is OpenAI's, as
`docs/openai.md` there has it. `test_client.py` drives it with Ollama's own client.
"""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cerberus_core.testing import Answer, Asked, Talker

NEVER = datetime(2318, 1, 1, tzinfo=UTC)
GIB = 1 << 30


class FakeOllama(Talker):
    """`async with FakeOllama() as fake:`; serves at `fake.url`."""

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, dict[str, Any]] = {}
        self.loaded: dict[str, datetime] = {}
        self.load_gate: asyncio.Event | None = None
        """A load waits for it."""
        self.load_begun = asyncio.Event()
        self.overhead = GIB
        """Bytes that a model takes in memory beyond its size on disk."""
        self.unload_looks = 0
        """So many times `/api/ps` still shows a model that is being unloaded."""
        self.pull_lines: list[dict[str, Any]] | None = None
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self._leaving: dict[str, int] = {}

    def install(
        self,
        name: str,
        size: int = 4 * GIB,
        *,
        vram: int = 0,
        caps: list[str] | None = None,
        ctx: int = 8192,
    ) -> None:
        self.models[name] = {
            "size": size,
            "vram": vram,
            "ctx": ctx,
            "caps": caps or ["completion", "tools"],
            "digest": f"{len(self.models):064x}",
            "tags_caps": False,
            "remote": None,
        }

    async def stop(self) -> None:
        """As a server that ends: its port is closed, its models are gone."""
        await super().stop()
        self.loaded = {}

    async def answer(self, asked: Asked, out: Answer) -> None:
        body = asked.body
        match asked.what:
            case "GET /" | "HEAD /":  # routes.go, GenerateRoutes
                await out.write(b"Ollama is running")
            case "GET /api/version":  # routes.go, GenerateRoutes
                await out.json({"version": "0.13.0"})
            case "GET /api/tags":  # api.md, List Local Models
                await out.json({"models": [self._tag(name) for name in self.models]})
            case "GET /api/ps":  # api.md, List Running Models
                await out.json({"models": self._ps()})
            case "POST /api/show":  # api.md, Show Model Information
                await self._show(out, body)
            case "POST /api/generate":  # api.md, Generate a completion; routes.go, GenerateHandler
                await self._generate(out, body)
            case "POST /api/embed":  # api.md, Generate Embeddings; routes.go, EmbedHandler
                await self._embed(out, body)
            case "POST /api/pull":  # api.md, Pull a Model; routes.go, streamResponse
                await self._pull(out, body)
            case "DELETE /api/delete":  # api.md, Delete a Model
                if self.models.pop(body["model"], None) is None:
                    await out.json({"error": f"model '{body['model']}' not found"}, 404)
                else:
                    await out.write(b"")
            case "POST /v1/chat/completions":  # docs/openai.md
                await self._chat(out, body)
            case _:
                await out.write(b"404 page not found", 404)

    def _tag(self, name: str) -> dict[str, Any]:
        model = self.models[name]
        row = {
            "name": name,
            "model": name,
            "modified_at": "2023-12-07T09:32:18.757212583-08:00",
            "size": model["size"],
            "digest": model["digest"],
            "details": {
                "parent_model": "",
                "format": "gguf",
                "family": "llama",
                "families": None,
                "parameter_size": "7B",
                "quantization_level": "Q4_0",
            },
        }
        if model["tags_caps"]:
            row["capabilities"] = model["caps"]
        if model["remote"]:  # routes.go, ListHandler
            row |= {"remote_model": name, "remote_host": model["remote"]}
        return row

    def _ps(self) -> list[dict[str, Any]]:
        for name in list(self._leaving):
            self._leaving[name] -= 1
            if self._leaving[name] < 0:
                del self._leaving[name]
                self.loaded.pop(name, None)
        return [
            {
                **{k: v for k, v in self._tag(name).items() if k != "modified_at"},
                "size": self.models[name]["size"] + self.overhead,
                "size_vram": self.models[name]["vram"],
                "expires_at": expires.isoformat(),
                "context_length": 4096,
            }
            for name, expires in self.loaded.items()
            if name in self.models
        ]

    async def _show(self, out: Answer, body: Any) -> None:
        model = self.models.get(body["model"])
        if model is None:
            await out.json({"error": f"model '{body['model']}' not found"}, 404)
            return
        await out.json(
            {
                "modelfile": "FROM x",
                "parameters": 'stop                           "<|eot_id|>"\n'
                f"num_ctx   {model['ctx']}",
                "details": self._tag(body["model"])["details"],
                "model_info": {
                    "general.architecture": "llama",
                    "llama.attention.head_count": 32,
                    "llama.attention.head_count_kv": 8,
                    "llama.block_count": 32,
                    "llama.context_length": 131072,
                    "llama.embedding_length": 4096,
                },
                "capabilities": model["caps"],
            },
        )

    async def _generate(self, out: Answer, body: Any) -> None:
        name, keep = body["model"], body.get("keep_alive")
        if name not in self.models:
            await out.json({"error": f"model '{name}' not found"}, 404)
        elif keep == 0 and not body.get("prompt"):
            self.leaves(name)
            if name in self.loaded:
                self._leaving[name] = self.unload_looks
                if not self.unload_looks:
                    self.loaded.pop(name)
                    del self._leaving[name]
            await self._done(out, name, "unload")
        elif "completion" not in self.models[name]["caps"]:
            await out.json({"error": f'"{name}" does not support generate'}, 400)
        else:
            await self._load(name, keep)
            await self._done(out, name, "load")

    async def _embed(self, out: Answer, body: Any) -> None:
        await self._load(body["model"], body.get("keep_alive"))
        await out.json({"model": body["model"], "embeddings": []})

    async def _load(self, name: str, keep: Any) -> None:
        self.load_begun.set()
        if name not in self.loaded and self.load_gate is not None:
            await self.load_gate.wait()
        if name not in self.loaded:
            self.loads[name] += 1
            await asyncio.sleep(self.load_s)
        if keep is not None or name not in self.loaded:  # sched.go: only overwritten if given
            self.loaded[name] = self._expiry(keep)
        self._leaving.pop(name, None)

    def _expiry(self, keep: Any) -> datetime:
        seconds = {None: 300, "5m": 300}.get(keep, keep)
        return NEVER if seconds < 0 else self.now + timedelta(seconds=seconds)

    async def _done(self, out: Answer, name: str, reason: str) -> None:
        await out.json(
            {
                "model": name,
                "created_at": "2024-09-12T03:54:03.516566Z",
                "response": "",
                "done": True,
                "done_reason": reason,
            },
        )

    async def _pull(self, out: Answer, body: Any) -> None:
        lines = self.pull_lines
        if lines is None:
            digest = "sha256:6a0746a1ec1aef3e7ec53868f220ff6e389f6f8ef87a01d77c96807de94ca2aa"
            at = {"status": f"pulling {digest[7:19]}", "digest": digest, "total": 100}
            lines = [
                {"status": "pulling manifest"},
                at,
                {**at, "completed": 40},
                {**at, "completed": 100},
                {"status": "verifying sha256 digest"},
                {"status": "writing manifest"},
                {"status": "success"},
            ]
            name = body["model"]
            self.install(name if ":" in name else f"{name}:latest")
        await out.stream("application/x-ndjson", [json.dumps(x) + "\n" for x in lines])

    async def _chat(self, out: Answer, body: Any) -> None:
        await self._load(body["model"], None)
        await self.talk(out, body)
