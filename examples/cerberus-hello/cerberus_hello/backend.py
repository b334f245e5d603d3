"""A backend with one model, whose engine is a tiny HTTP server in this process."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import attrs

from cerberus_core.interfaces import Backend
from cerberus_core.values import Endpoint, LoadPlan, LoadProgress, ModelInfo


@attrs.frozen(kw_only=True)
class Settings:
    """`[plugins.hello]`"""

    greeting: str = "Hello"


class Hello(Backend):
    name = "hello"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server: asyncio.Server | None = None

    async def list(self) -> list[ModelInfo]:
        return [ModelInfo(id="hello/world", backend="hello", name="world")]

    async def load(
        self, model: ModelInfo, plan: LoadPlan, report: Callable[[LoadProgress], None]
    ) -> Endpoint:
        if self._server is None:
            # Port 0: the system picks a free one, without a race.
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return Endpoint(base_url=f"http://127.0.0.1:{port}/v1", model="world", backend="hello")

    async def unload(self, model: ModelInfo) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of one connection: `POST /v1/chat/completions`, whatever the path."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            _, _, length = head.partition("content-length:")
            body = await reader.readexactly(int(length.split("\r\n")[0] or 0))
            request = json.loads(body or b"{}")
            kind = "text/event-stream" if request.get("stream") else "application/json"
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()
            )
            for part in _answer(self._settings.greeting, request):
                writer.write(part)
                await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # the client left, or spoke something else
        finally:
            writer.close()


def _answer(greeting: str, request: dict[str, Any]) -> list[bytes]:
    words = [greeting, ", ", "world", "!"]
    usage = {"prompt_tokens": 1, "completion_tokens": len(words), "total_tokens": 5}
    common: dict[str, Any] = {"id": "hello", "created": 0, "model": "world"}
    if not request.get("stream"):
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
        return [json.dumps(whole).encode()]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"content": w}, "finish_reason": None} for w in words
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    chunks: list[dict[str, Any]] = [
        {**common, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices
    ]
    options = request.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        chunks.append({**chunks[0], "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return [*lines, b"data: [DONE]\n\n"]
