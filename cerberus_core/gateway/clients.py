"""Which client reaches an endpoint, and which headers it sends."""

from cerberus_core.values import Endpoint

from .upstream import Client, LeanClient, RemoteClient, Target

MAX_KNOWN = 256


class Clients:
    """The two clients, chosen by address."""

    def __init__(self) -> None:
        self.lean = LeanClient()
        self.remote = RemoteClient()
        self.closing = False
        self._targets: dict[tuple[int, str, bool], tuple[Endpoint, Client, Target]] = {}

    def way_to(self, endpoint: Endpoint, path: str, *, stream: bool) -> tuple[Client, Target]:
        """Where a request for `path` (`/v1/…`) goes, with which headers, and by which client.

        Ours and the endpoint's own, nothing of the client's. Kept, so that what
        is worked out for an endpoint is worked out once.
        """
        key = (id(endpoint), path, stream)
        known = self._targets.get(key)
        if known is not None and known[0] is endpoint:
            return known[1], known[2]
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
            "accept-encoding": "identity",
            "user-agent": "cerberus",
            **endpoint.headers,
        }
        url = endpoint.base_url + path.removeprefix("/v1")
        client, target = self.for_url(url), Target(url=url, headers=headers)
        if len(self._targets) >= MAX_KNOWN:
            self._targets.clear()
        self._targets[key] = (endpoint, client, target)
        return client, target

    def for_url(self, url: str) -> Client:
        """The lean one for plain HTTP on loopback, else aiohttp."""
        if url.startswith(("http://127.0.0.1:", "http://localhost:", "http://[::1]:")):
            return self.lean
        return self.remote

    async def aclose(self) -> None:
        """Hang up everything."""
        self.closing = True
        await self.lean.aclose()
        await self.remote.aclose()
