"""Pages of other origins that may use `/v1`, by `gateway.cors_origins`.

The protocol is https://fetch.spec.whatwg.org/#http-cors-protocol.
They send a key as any program does: a cookie of ours is nothing to them.
"""

from collections.abc import Iterable

from .wire import Header, Scope, Send


class Cors:
    """The answer for one configuration."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self._origins = frozenset(origin.lower() for origin in origins)

    def __bool__(self) -> bool:
        return bool(self._origins)

    def lets_in(self, origin: str | None, path: str) -> bool:
        """Whether a page of `origin` may ask at `path`, as far as that goes."""
        if not self._origins or origin is None:
            return False
        return path.startswith("/v1/") and origin.lower() in self._origins

    def origin_of(self, scope: Scope) -> bytes | None:
        """The origin of a page that is let in, which its answer must name."""
        if not self._origins or scope["type"] != "http":
            return None
        given = [value for name, value in scope["headers"] if name == b"origin"]
        if len(given) == 1 and self.lets_in(given[0].decode("latin-1"), scope["path"]):
            return bytes(given[0])
        return None


def named(send: Send, origin: bytes) -> Send:
    """A `send` whose answers a page of `origin` may read."""
    more: list[Header] = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"Origin"),
    ]

    async def sending(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            message = {**message, "headers": [*headers, *more]}  # type: ignore[misc]
        await send(message)

    return sending


async def preflight(scope: Scope, send: Send) -> None:
    """What a browser asks before it lets a page send its request. No token is needed to hear it."""
    asked = dict(scope["headers"]).get(b"access-control-request-headers", b"")
    headers = [
        (b"access-control-allow-methods", b"GET, HEAD, POST"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
