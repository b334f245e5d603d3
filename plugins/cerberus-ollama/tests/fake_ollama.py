"""A stand-in for Ollama's server: its HTTP as documented, with states that tests set.

Shapes and words are those of `docs/api.md` and `server/routes.go` of
github.com/ollama/ollama, the place of each named below. `/v1` is OpenAI's, as
`docs/openai.md` there has it. `test_client.py` drives it with Ollama's own client.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from cerberus_core.testing import Listener

NEVER = datetime(2318, 1, 1, tzinfo=UTC)
GIB = 1 << 30


class FakeOllama:
    """`async with FakeOllama() as fake:`; serves at `fake.url`."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, Any]] = {}
        self.loaded: dict[str, datetime] = {}
        self.asked: list[tuple[str, Any]] = []
        """(method and path, body) of each request."""
        self.answers: dict[str, tuple[int, bytes]] = {}
        """Path → what it answers instead."""
        self.load_gate: asyncio.Event | None = None
        """A load waits for it."""
        self.load_begun = asyncio.Event()
        self.loads: Counter[str] = Counter()
        """Model → how often it was brought into memory."""
        self.load_s = 0.0
        """What a load takes."""
        self.word_s = 0.0
        """What a word of an answer takes."""
        self.hold: Callable[[Any, int], Awaitable[None]] | None = None
        """Awaited after each word of a stream, with what was asked and the word's number."""
        self.answering: Counter[str] = Counter()
        self.hurt: list[str] = []
        """Models that were to leave while they answered."""
        self.overhead = GIB
        """Bytes that a model takes in memory beyond its size on disk."""
        self.unload_looks = 0
        """So many times `/api/ps` still shows a model that is being unloaded."""
        self.pull_lines: list[dict[str, Any]] | None = None
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.url = ""
        self._leaving: dict[str, int] = {}
        self._listener = Listener(self._one)

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

    async def __aenter__(self) -> "FakeOllama":
        await self._listener.__aenter__()
        self.url = self._listener.url
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """As a server that ends: its port is closed, its models are gone."""
        await self._listener.stop()
        self.loaded = {}

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == path]

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        body = json.loads(raw) if raw else None
        self.asked.append((f"{method} {path}", body))
        if path in self.answers:
            status, answer = self.answers[path]
            await self._write(writer, status, answer)
            return
        # The client leaves: Go cancels the request's context, and with it the load.
        serving = asyncio.ensure_future(self._answer(writer, method, path, body))
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait([serving, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (serving, leaving):
                task.cancel()
            await asyncio.wait([serving, leaving])

    async def _answer(self, w: asyncio.StreamWriter, method: str, path: str, body: Any) -> None:
        match f"{method} {path}":
            case "GET /" | "HEAD /":  # routes.go, GenerateRoutes
                await self._write(w, 200, b"Ollama is running")
            case "GET /api/version":  # routes.go, GenerateRoutes
                await self._json(w, {"version": "0.13.0"})
            case "GET /api/tags":  # api.md, List Local Models
                await self._json(w, {"models": [self._tag(name) for name in self.models]})
            case "GET /api/ps":  # api.md, List Running Models
                await self._json(w, {"models": self._ps()})
            case "POST /api/show":  # api.md, Show Model Information
                await self._show(w, body)
            case "POST /api/generate":  # api.md, Generate a completion; routes.go, GenerateHandler
                await self._generate(w, body)
            case "POST /api/embed":  # api.md, Generate Embeddings; routes.go, EmbedHandler
                await self._embed(w, body)
            case "POST /api/pull":  # api.md, Pull a Model; routes.go, streamResponse
                await self._pull(w, body)
            case "DELETE /api/delete":  # api.md, Delete a Model
                if self.models.pop(body["model"], None) is None:
                    await self._json(w, {"error": f"model '{body['model']}' not found"}, 404)
                else:
                    await self._write(w, 200, b"")
            case "POST /v1/chat/completions":  # docs/openai.md
                await self._chat(w, body)
            case _:
                await self._write(w, 404, b"404 page not found")

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

    async def _show(self, w: asyncio.StreamWriter, body: Any) -> None:
        model = self.models.get(body["model"])
        if model is None:
            await self._json(w, {"error": f"model '{body['model']}' not found"}, 404)
            return
        await self._json(
            w,
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

    async def _generate(self, w: asyncio.StreamWriter, body: Any) -> None:
        name, keep = body["model"], body.get("keep_alive")
        if name not in self.models:
            await self._json(w, {"error": f"model '{name}' not found"}, 404)
        elif keep == 0 and not body.get("prompt"):
            if self.answering[name]:
                self.hurt.append(name)
            if name in self.loaded:
                self._leaving[name] = self.unload_looks
                if not self.unload_looks:
                    self.loaded.pop(name)
                    del self._leaving[name]
            await self._done(w, name, "unload")
        elif "completion" not in self.models[name]["caps"]:
            await self._json(w, {"error": f'"{name}" does not support generate'}, 400)
        else:
            await self._load(name, keep)
            await self._done(w, name, "load")

    async def _embed(self, w: asyncio.StreamWriter, body: Any) -> None:
        await self._load(body["model"], body.get("keep_alive"))
        await self._json(w, {"model": body["model"], "embeddings": []})

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

    async def _done(self, w: asyncio.StreamWriter, name: str, reason: str) -> None:
        await self._json(
            w,
            {
                "model": name,
                "created_at": "2024-09-12T03:54:03.516566Z",
                "response": "",
                "done": True,
                "done_reason": reason,
            },
        )

    async def _pull(self, w: asyncio.StreamWriter, body: Any) -> None:
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
        await self._stream(w, "application/x-ndjson", [json.dumps(x) + "\n" for x in lines])

    async def _chat(self, w: asyncio.StreamWriter, body: Any) -> None:
        await self._load(body["model"], None)
        self.answering[body["model"]] += 1
        try:
            await self._say(w, body)
        finally:
            self.answering[body["model"]] -= 1

    async def _say(self, w: asyncio.StreamWriter, body: Any) -> None:
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body["model"]}
        pieces: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
            for word in ("Hel", "lo")
        ]
        pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        if not body.get("stream"):
            choice = {"index": 0, "finish_reason": "stop"}
            message = {"message": {"role": "assistant", "content": "Hello"}}
            await asyncio.sleep(self.word_s * 2)
            await self._json(w, {**base, "choices": [choice | message], "usage": usage})
            return
        if body.get("stream_options", {}).get("include_usage"):
            pieces.append({"choices": [], "usage": usage})

        async def word_said(number: int) -> None:
            await asyncio.sleep(self.word_s)
            if self.hold is not None:
                await self.hold(body, number)

        events = [f"data: {json.dumps(base | piece)}\n\n" for piece in pieces]
        await self._stream(w, "text/event-stream", [*events, "data: [DONE]\n\n"], word_said)

    async def _json(self, w: asyncio.StreamWriter, value: Any, status: int = 200) -> None:
        await self._write(w, status, json.dumps(value).encode(), "application/json; charset=utf-8")

    async def _write(
        self, w: asyncio.StreamWriter, status: int, body: bytes, kind: str = "text/plain"
    ) -> None:
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        w.write(f"{head}connection: close\r\n\r\n".encode() + body)
        await w.drain()

    async def _stream(
        self,
        w: asyncio.StreamWriter,
        kind: str,
        pieces: list[str],
        said: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        head = f"HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n"
        w.write(f"{head}connection: close\r\n\r\n".encode())
        for number, piece in enumerate(pieces):
            data = piece.encode()
            w.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await w.drain()
            if said is not None:
                await said(number)
        w.write(b"0\r\n\r\n")
        await w.drain()
