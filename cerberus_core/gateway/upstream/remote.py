"""aiohttp behind the relay's interface: TLS, names, proxies, slow networks."""

import asyncio

import aiohttp

from .interface import Answer, Client, ConnectionLost, Request

CONNECT_S = 15.0


class RemoteClient(Client):
    """One session without cookies, limits or automatic decoding."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def open(self, request: Request, timeout: float | None = None) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
                trust_env=True,
            )
        try:
            async with asyncio.timeout(timeout) as limit:
                response = await self._session.post(
                    request.url,
                    data=request.body,
                    headers=request.headers,
                    allow_redirects=False,
                )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if limit.expired():
                raise TimeoutError from None
            # The exception may quote headers; its kind and the address are enough.
            raise ConnectionLost(
                f"no answer from {request.url}: {_words(error)}", before_answer=True
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


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error)
    return type(error).__name__
