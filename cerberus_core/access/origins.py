"""Which names we answer to, and whose pages may call us.

A page whose name was pointed at 127.0.0.1 (DNS rebinding) is same-origin for
the browser: comparing Origin with Host is no defence, so the Host itself must
be one of ours. An address can't be rebound, a name can: literal addresses are
fine where we listen on more than loopback.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit


class Hosts:
    """The answer for one configuration. `bind` is `server.host`."""

    def __init__(
        self, *, bind: str, public_url: str | None = None, allowed: Iterable[str] = ()
    ) -> None:
        self._names = {"localhost"} | {name.lower().rstrip(".") for name in allowed}
        self._public_origin: str | None = None
        if public_url:
            parts = urlsplit(public_url)
            if parts.hostname:
                self._names.add(parts.hostname.lower())
            self._public_origin = f"{parts.scheme}://{parts.netloc}".lower()
        self._any_address = not _is_loopback(bind)
        if not _is_address(bind):
            self._names.add(bind.lower())

    def host_allowed(self, host: str | None) -> bool:
        """Whether a `Host` header (with or without port) names us."""
        name = _name_of(host)
        if name is None:
            return False
        if _is_address(name):
            return self._any_address or _is_loopback(name)
        return name in self._names

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Whether a page of `origin` may call us, where it reached us as `host`."""
        origin = origin.lower()
        if origin == self._public_origin:
            return True
        return origin in (f"http://{host.lower()}", f"https://{host.lower()}")


def _name_of(host: str | None) -> str | None:
    if not host:
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query or not parts.hostname:
        return None
    return parts.hostname.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)
