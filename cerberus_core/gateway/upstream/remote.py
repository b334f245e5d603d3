"""aiohttp behind the relay's interface: TLS, names, proxies, slow networks."""

import asyncio
import functools
import io
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_proto import ResponseHandler

from .interface import Answer, Client, ConnectionLost, Target

CONNECT_S = 15.0
LARGE = 1 << 20
"""Bytes of a body that is sent in pieces, so that the loop is not held."""


class RemoteClient(Client):
    """One session without cookies, limits or automatic decoding."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def open(self, target: Target, body: bytes, timeout: float | None = None) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=0, ttl_dns_cache=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                trace_configs=[_noting_reuse()],
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
            )
        try:
            async with asyncio.timeout(timeout) as limit:
                response = await _post(self._session, target, body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if limit.expired():
                raise TimeoutError from None
            # The exception may quote headers; its kind and the address are enough.
            raise ConnectionLost(
                f"no answer from {target.url}: {_words(error)}", before_answer=True
            ) from None
        return _RemoteAnswer(response)

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class _RemoteAnswer(Answer):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response = response

    async def read(self, timeout: float) -> bytes | None:
        try:
            async with asyncio.timeout(timeout):
                return await self._response.content.readany()
        except TimeoutError:
            return None
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(_words(error), before_answer=False) from None

    def close(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


async def _post(
    session: aiohttp.ClientSession, target: Target, body: bytes
) -> aiohttp.ClientResponse:
    """Once more only where a kept connection was closed as the request went out.

    aiohttp itself sends no POST again.
    """
    proxy = _proxy_for(target.url)
    while True:
        told: dict[str, bool] = {}
        try:
            return await session.post(
                target.url,
                data=io.BytesIO(body) if len(body) >= LARGE else body,
                headers=target.headers,
                allow_redirects=False,
                proxy=proxy,
                trace_request_ctx=told,
            )
        except aiohttp.ClientConnectionError as error:
            if not told.get("reused") or _heard(error):
                raise


class _Connection(ResponseHandler):
    """Tells with an error whether any byte of the answer had come."""

    heard = True

    def set_response_params(self, **params: Any) -> None:
        self.heard = False  # a request begins
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        super().data_received(data)

    def set_exception(self, exc: Any, *cause: Any) -> None:
        if isinstance(exc, aiohttp.ClientError):
            exc.heard = self.heard  # type: ignore[attr-defined]
        super().set_exception(exc, *cause)


class _Connector(aiohttp.TCPConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = functools.partial(_Connection, loop=self._loop)  # type: ignore[assignment]


def _heard(error: BaseException) -> bool:
    """Whether the far side had begun to answer; true where nobody knows."""
    heard: bool = getattr(error, "heard", True)
    return heard


def _noting_reuse() -> aiohttp.TraceConfig:
    async def note(_: object, context: Any, __: object) -> None:
        context.trace_request_ctx["reused"] = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for it.

    aiohttp's `trust_env` would do the same, and send logins of a .netrc beside
    or instead of the endpoint's key.
    """
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error)
    if isinstance(error, aiohttp.ClientResponseError):
        return "the head of its answer is no HTTP, or longer than is read"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the connection was closed"
    return type(error).__name__
