"""Validators and facts of what settings say about a server. Pure."""

import os
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import attrs


def server_address(example: str) -> Callable[[Any, "attrs.Attribute[Any]", str | None], None]:
    """A validator of a server's own address, such as `example`: http or https, no path."""

    def check(_: object, attribute: "attrs.Attribute[Any]", value: str | None) -> None:
        if value is not None and not is_address(value):
            name = attribute.name
            raise ValueError(f"{name} must be an address such as {example}, without a path")

    return check


def is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of a port that is none, half an IPv6 address
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return bool(good) and value.isascii() and plain and parts.path in ("", "/")


def is_local(url: str) -> bool:
    """Whether it is this machine: a loopback address."""
    name = urlsplit(url).hostname or ""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def one_line(_: object, attribute: "attrs.Attribute[Any]", value: str | None) -> None:
    """A validator of a key: what a header can carry. It never tells the value."""
    if value is not None and not _sendable(value):
        raise ValueError(f"{attribute.name} must be one line of plain characters")


def key_of(
    api_key: str | None, api_key_env: str | None, env: Mapping[str, str] = os.environ
) -> str | None:
    """The key, or the one in the variable of that name; None where neither is set.

    Raises KeyError with the variable's name if it is unset or holds nothing that can be sent.
    """
    if api_key is not None or api_key_env is None:
        return api_key
    key = env[api_key_env].strip()
    if not _sendable(key):
        raise KeyError(api_key_env)
    return key


def _sendable(key: str) -> bool:
    return key.isprintable() and key.isascii() and key.strip() != ""
