"""A listen address as people write it. Pure."""

from ipaddress import IPv6Address
from urllib.parse import urlsplit

from cerberus_core.errors import CerberusError


def parse_address(text: str) -> tuple[str | None, int | None]:
    """(host, port) of `host`, `host:port`, `:port`, `port` or `[v6]:port`; None where not given."""
    if text.isascii() and text.isdigit():
        return None, _port(text, text)
    if text.count(":") > 1 and not text.startswith("["):
        return _bare_ipv6(text), None
    try:
        parts = urlsplit(f"//{text}")
        host = parts.hostname
    except ValueError:
        raise _wrong(text) from None
    if parts.path or parts.query or parts.fragment or parts.username is not None:
        raise _wrong(text)
    port = text.rpartition(":")[2] if text.rpartition("]")[2].count(":") else None
    return host or None, None if port is None else _port(port, text)


def _bare_ipv6(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except ValueError:
        raise _wrong(text) from None


def _port(digits: str, text: str) -> int:
    if digits.isascii() and digits.isdigit() and int(digits[:6]) <= 65535:
        return int(digits)
    raise _wrong(text)


def _wrong(text: str) -> CerberusError:
    return CerberusError(
        f"{text!r} is no address to listen on",
        hint="Write 127.0.0.1, 127.0.0.1:8000, [::1]:8000, :8000 or 8000.",
        code="usage",
    )
