"""What every answer of the admin API has in common: safe headers, and HEAD."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

Header = tuple[bytes, bytes]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_SAFE: tuple[Header, ...] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


def safe(headers: Iterable[Header]) -> list[Header]:
    """`headers`, and those that no answer may be without."""
    kept = list(headers)
    names = {name.lower() for name, _ in kept}
    return kept + [header for header in _SAFE if header[0] not in names]


def safely(send: Send) -> Send:
    """A `send` that adds them."""

    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": safe(message.get("headers", ()))}
        await send(message)

    return sending


def head_as_get(scope: Scope, receive: Receive, send: Send) -> tuple[Scope, Receive, Send]:
    """HEAD is GET without a body: the application need not know it.

    Once the head is out, the application hears that its client has left, so
    that no endless stream runs on for nobody.
    """
    done = False

    async def receiving() -> dict[str, Any]:
        return {"type": "http.disconnect"} if done else await receive()

    async def sending(message: dict[str, Any]) -> None:
        nonlocal done
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})
            done = True

    return {**scope, "method": "GET"}, receiving, sending
