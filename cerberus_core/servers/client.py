"""The HTTP API of a model server, which may be down, slow, older, or somebody else's."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx

from cerberus_core.errors import CerberusError, Unavailable

ASK_LIMIT_S = 5.0
"""Seconds for the whole of a question that loads nothing."""
MOST_BYTES = 16 << 20
"""Of an answer, or of one line of it."""


class Refused(Exception):
    """The server's answer was no; `str` has its own words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class ModelServer:
    """One server by its address. A plugin's own class says which program it is::

        class Server(ModelServer):
            program = "Ollama"
            plugin = "ollama"
            start = "ollama serve"

    Whoever asks gets a JSON object, `Refused`, or an `Unavailable` with a hint: with the
    code `<plugin>_down` where nothing listens.
    """

    program: ClassVar[str]
    """Its name, for people."""
    plugin: ClassVar[str]
    """Whose `base_url` its address is."""
    start: ClassVar[str]
    """The command that starts it on this machine."""

    def __init__(self, url: str, *, local: bool) -> None:
        self.url = url
        self._local = local
        self._client: httpx.AsyncClient | None = None

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        limit_s: float | None = ASK_LIMIT_S,
    ) -> dict[str, Any]:
        """The JSON object that `path` answers, POST where there is a body.

        Raises `Refused`, and `Unavailable` where nobody or nonsense answers.
        `limit_s` None: as long as it takes.
        """
        method = "GET" if body is None else "POST"
        return self._object(path, await self._asked(method, path, body, headers, limit_s))

    async def delete(
        self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Whatever it answers. Raises as `ask` does."""
        await self._asked("DELETE", path, body, headers, ASK_LIMIT_S)

    async def lines(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        silence_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """The JSON objects of a streamed answer, one by one. Raises as `ask` does."""
        rest = b""
        try:
            async with self._sent("POST", path, body, headers, silence_s) as answer:
                async for piece in answer.aiter_bytes():
                    *whole, rest = (rest + piece).split(b"\n")
                    if len(rest) > MOST_BYTES:
                        raise self._nonsense(path)
                    for line in whole:
                        if line.strip():
                            yield self._object(path, line)
                if rest.strip():
                    yield self._object(path, rest)
        except httpx.ReadTimeout:
            raise self._silent(path, silence_s) from None
        except httpx.HTTPError as error:
            raise self._away(error) from None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def refusal(self, status: int, words: str | None) -> Exception:
        """What is raised for an answer from 300 on; `words` are its own, if it has any."""
        return Refused(status, words or f"it answered {status}")

    @staticmethod
    def words(answer: object) -> str | None:
        """The words of an error: `{"error": "…"}` or `{"error": {"message": "…"}}`."""
        told = answer.get("error") if isinstance(answer, dict) else None
        if isinstance(told, dict):
            told = told.get("message")
        return told if isinstance(told, str) and told else None

    async def _asked(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        limit_s: float | None,
    ) -> bytes:
        try:
            async with (
                asyncio.timeout(limit_s),
                self._sent(method, path, body, headers, None) as answer,
            ):
                return await self._whole(path, answer)
        except TimeoutError:
            raise self._silent(path, limit_s) from None
        except httpx.HTTPError as error:
            raise self._away(error) from None

    @asynccontextmanager
    async def _sent(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        read_s: float | None,
    ) -> AsyncIterator[httpx.Response]:
        """The answer, its body still to come. Raises what `refusal` says."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                # No kept connections: one that was closed meanwhile costs a question.
                limits=httpx.Limits(max_keepalive_connections=0),
                trust_env=False,  # a proxy has no business with a server at home
                verify=self.url.startswith("https"),  # certificates are read from disk
            )
        timeout = httpx.Timeout(None, connect=5.0, read=read_s)
        async with self._client.stream(
            method, f"{self.url}{path}", json=body, headers=headers, timeout=timeout
        ) as answer:
            if answer.status_code >= 300:
                told = _json(await self._whole(path, answer))
                raise self.refusal(answer.status_code, self.words(told))
            yield answer

    async def _whole(self, path: str, answer: httpx.Response) -> bytes:
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > MOST_BYTES:
                raise self._nonsense(path)
        return bytes(body)

    def _object(self, path: str, body: bytes) -> dict[str, Any]:
        value = _json(body)
        if not isinstance(value, dict):
            raise self._nonsense(path)
        return value

    def _away(self, error: httpx.HTTPError) -> CerberusError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            hint = f"Start it: `{self.start}`" if self._local else "Is it running there?"
            return Unavailable(
                f"{self.program} does not run at {self.url}",
                hint=f"{hint}, or set plugins.{self.plugin}.base_url.",
                code=f"{self.plugin}_down",
            )
        return Unavailable(
            f"{self.program} at {self.url} broke off: {error or type(error).__name__}",
            hint="Its log says why; is it being restarted?",
        )

    def _silent(self, path: str, limit_s: float | None) -> Unavailable:
        return Unavailable(
            f"{self.program} at {self.url} did not answer {path} within {limit_s:g} s",
            hint="Is the machine short of memory, or something else listening there?",
        )

    def _nonsense(self, path: str) -> Unavailable:
        return Unavailable(
            f"What answers {path} is no {self.program}",
            hint=f"Does plugins.{self.plugin}.base_url name the address of an {self.program}, "
            "without a path?",
        )


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
