"""LM Studio's REST API, which may be down, older, or somebody else's.

Paths and shapes: `1_developer/2_rest` of github.com/lmstudio-ai/docs.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx

from cerberus_core.errors import Unavailable

ASK_LIMIT_S = 5.0
"""Seconds for the whole of a question that loads nothing."""
MOST_BYTES = 16 << 20


class Refused(Exception):
    """LM Studio's answer was no; `str` has its own words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Server:
    """One LM Studio by its address."""

    def __init__(self, url: str, *, local: bool) -> None:
        self.url = url
        self._local = local
        self._client: httpx.AsyncClient | None = None

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str],
        limit_s: float | None = ASK_LIMIT_S,
    ) -> dict[str, Any]:
        """The JSON object that `path` answers, POST where there is a body.

        Raises `Refused`, and `Unavailable` where nobody or nonsense answers.
        `limit_s` None: as long as it takes.
        """
        if self._client is None:
            self._client = httpx.AsyncClient(
                # No kept connections: one that was closed meanwhile costs a question.
                limits=httpx.Limits(max_keepalive_connections=0),
                trust_env=False,  # a proxy has no business with a server at home
                verify=self.url.startswith("https"),  # certificates are read from disk
            )
        method = "GET" if body is None else "POST"
        timeout = httpx.Timeout(None, connect=5.0)
        try:
            async with (
                asyncio.timeout(limit_s),
                self._client.stream(
                    method, f"{self.url}{path}", json=body, headers=headers, timeout=timeout
                ) as answer,
            ):
                return _read(path, answer.status_code, await _whole(path, answer))
        except TimeoutError:
            raise Unavailable(
                f"LM Studio at {self.url} did not answer {path} within {limit_s:g} s",
                hint="Is the machine short of memory, or something else listening there?",
            ) from None
        except (httpx.ConnectError, httpx.ConnectTimeout):
            hint = "Start it: `lms server start`" if self._local else "Is it running there?"
            raise Unavailable(
                f"LM Studio's server does not run at {self.url}",
                hint=f"{hint}, or set plugins.lmstudio.base_url.",
                code="lmstudio_down",
            ) from None
        except httpx.HTTPError as error:
            raise Unavailable(
                f"LM Studio at {self.url} broke off: {error or type(error).__name__}",
                hint="Its log says why; is it being restarted?",
            ) from None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


async def _whole(path: str, answer: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > MOST_BYTES:
            raise _nonsense(path)
    return bytes(body)


def _read(path: str, status: int, body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if status in (401, 403):
        raise Unavailable(
            f"LM Studio refused the API token ({status})",
            hint="Set plugins.lmstudio.api_key or api_key_env to a token that it knows.",
            code="lmstudio_key",
        )
    if status >= 300:
        raise Refused(status, _words(value) or f"it answered {status}")
    if not isinstance(value, dict):
        raise _nonsense(path)
    if "error" in value:
        # Paths that it doesn't know are answered with 200 and an error.
        raise Refused(status, _words(value) or "it answered with an error")
    return value


def _words(value: object) -> str | None:
    told = value.get("error") if isinstance(value, dict) else None
    if isinstance(told, dict):
        told = told.get("message")
    return told if isinstance(told, str) and told else None


def _nonsense(path: str) -> Unavailable:
    return Unavailable(
        f"What answers {path} is no LM Studio",
        hint="Does plugins.lmstudio.base_url name the address of an LM Studio, without a path?",
    )
