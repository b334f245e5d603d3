"""Which client reaches an endpoint, and which headers it sends."""

from collections.abc import Mapping

from cerberus_core.values import Endpoint

from .upstream import Client, LeanClient, RemoteClient

MAX_KNOWN = 256


class Clients:
    """The two clients, chosen by address."""

    def __init__(self) -> None:
        self.lean = LeanClient()
        self.remote = RemoteClient()
        self.closing = False
        self._headers: dict[tuple[int, bool], tuple[Endpoint, Mapping[str, str]]] = {}

    def for_url(self, url: str) -> Client:
        """The lean one for plain HTTP on loopback, else aiohttp."""
        if url.startswith(("http://127.0.0.1:", "http://localhost:", "http://[::1]:")):
            return self.lean
        return self.remote

    def headers_for(self, endpoint: Endpoint, *, stream: bool) -> Mapping[str, str]:
        """What is sent to it: ours and the endpoint's own, nothing of the client's.

        The same object for the same endpoint, so that a client can keep what it
        makes of them.
        """
        key = (id(endpoint), stream)
        known = self._headers.get(key)
        if known is None or known[0] is not endpoint:
            headers = {
                "content-type": "application/json",
                "accept": "text/event-stream" if stream else "application/json",
                "accept-encoding": "identity",
                "user-agent": "cerberus",
                **endpoint.headers,
            }
            if len(self._headers) >= MAX_KNOWN:
                self._headers.clear()
            known = self._headers[key] = (endpoint, headers)
        return known[1]

    async def aclose(self) -> None:
        """Hang up everything."""
        self.closing = True
        await self.lean.aclose()
        await self.remote.aclose()
