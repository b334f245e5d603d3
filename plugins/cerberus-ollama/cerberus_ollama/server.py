"""Ollama's own HTTP API, which may be down, slow, or somebody else's.

Paths and shapes: `docs/api.md` of github.com/ollama/ollama.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from cerberus_core.errors import CerberusError, Overloaded, Unavailable

ASK_LIMIT_S = 5.0
"""Seconds for the whole of a question that needs no model."""
PULL_SILENCE_S = 300.0
"""Seconds that a pull may say nothing: checking a large file's sum is silent."""
MOST_BYTES = 16 << 20


class Refused(Exception):
    """Ollama's answer was no; `str` has its own words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Server:
    """One Ollama by its address."""

    def __init__(self, url: str, *, local: bool) -> None:
        self.url = url
        self._local = local
        self._client: httpx.AsyncClient | None = None

    async def ask(
        self, path: str, body: Mapping[str, Any] | None = None, *, limit_s: float | None
    ) -> dict[str, Any]:
        """The JSON object that `path` answers, POST where there is a body.

        Raises `Refused`, and `Unavailable` where nobody or nonsense answers.
        `limit_s` None: as long as it takes.
        """
        method = "GET" if body is None else "POST"
        try:
            async with asyncio.timeout(limit_s), self._sent(method, path, body, None) as answer:
                return _object(path, await _whole(answer))
        except TimeoutError:
            raise self._silent(path, limit_s) from None
        except httpx.HTTPError as error:
            raise self._away(error) from None

    async def delete(self, path: str, body: Mapping[str, Any]) -> None:
        """Raises as `ask` does."""
        try:
            async with asyncio.timeout(ASK_LIMIT_S), self._sent("DELETE", path, body, None):
                return
        except TimeoutError:
            raise self._silent(path, ASK_LIMIT_S) from None
        except httpx.HTTPError as error:
            raise self._away(error) from None

    async def lines(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The JSON objects of a streamed answer, one by one. Raises as `ask` does."""
        rest = b""
        try:
            async with self._sent("POST", path, body, PULL_SILENCE_S) as answer:
                async for piece in answer.aiter_bytes():
                    *whole, rest = (rest + piece).split(b"\n")
                    if len(rest) > MOST_BYTES:
                        raise _nonsense(path)
                    for line in whole:
                        if line.strip():
                            yield _object(path, line)
                if rest.strip():
                    yield _object(path, rest)
        except httpx.ReadTimeout:
            raise self._silent(path, PULL_SILENCE_S) from None
        except httpx.HTTPError as error:
            raise self._away(error) from None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None, read_s: float | None
    ) -> AsyncIterator[httpx.Response]:
        """The answer, its body still to come. Raises `Refused`."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                # No kept connections: one that Ollama has closed meanwhile costs a question.
                limits=httpx.Limits(max_keepalive_connections=0),
                trust_env=False,  # a proxy has no business with a server at home
                verify=self.url.startswith("https"),  # certificates are read from disk
            )
        timeout = httpx.Timeout(None, connect=5.0, read=read_s)
        url = f"{self.url}{path}"
        async with self._client.stream(method, url, json=body, timeout=timeout) as answer:
            if answer.status_code >= 300:
                raise _refusal(answer.status_code, await _whole(answer))
            yield answer

    def _away(self, error: httpx.HTTPError) -> CerberusError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            hint = "Start it: `ollama serve`" if self._local else "Is it running there?"
            return Unavailable(
                f"Ollama does not run at {self.url}",
                hint=f"{hint}, or set plugins.ollama.base_url.",
                code="ollama_down",
            )
        return Unavailable(
            f"Ollama at {self.url} broke off: {error or type(error).__name__}",
            hint="Its log says why; is it being restarted?",
        )

    def _silent(self, path: str, limit_s: float | None) -> Unavailable:
        return Unavailable(
            f"Ollama at {self.url} did not answer {path} within {limit_s:g} s",
            hint="Is the machine short of memory, or something else listening there?",
        )


async def _whole(answer: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > MOST_BYTES:
            raise _nonsense(answer.request.url.path)
    return bytes(body)


def _refusal(status: int, body: bytes) -> Exception:
    words = f"it answered {status}"
    try:
        told = json.loads(body)["error"]
        words = told if isinstance(told, str) and told else words
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    if status == 503:
        return Overloaded(f"Ollama is busy: {words}", hint="OLLAMA_MAX_QUEUE is its limit.")
    return Refused(status, words)


def _object(path: str, body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise _nonsense(path) from None
    if not isinstance(value, dict):
        raise _nonsense(path)
    return value


def _nonsense(path: str) -> Unavailable:
    return Unavailable(
        f"What answers {path} is no Ollama",
        hint="Does plugins.ollama.base_url name the address of an Ollama, without a path?",
    )
