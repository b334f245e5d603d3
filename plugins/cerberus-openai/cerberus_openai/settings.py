"""`[plugins.openai]`: any number of named endpoints."""

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import attrs

from cerberus_core.servers import key_of, one_line
from cerberus_core.values import USUAL_WIRES, WIRES

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _url(_: object, attribute: "attrs.Attribute[str]", value: str) -> None:
    name = attribute.name
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # of a port that is none, half an IPv6 address, a name no DNS takes
        good = False
    if not good or not value.isascii():
        raise ValueError(f"{name} must be an address such as https://api.example.com/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{name} must hold no user, query or fragment; a key goes into `api_key`")


def _headers(
    _: object, attribute: "attrs.Attribute[dict[str, str]]", value: dict[str, str]
) -> None:
    for name, text in value.items():
        if not _HEADER.fullmatch(name) or not text.isprintable() or not text.isascii():
            raise ValueError(f"{attribute.name} holds one that can't be sent: {name!r}")


def _wires(_: object, attribute: "attrs.Attribute[list[str]]", value: list[str]) -> None:
    if not value or not set(value) <= set(WIRES):
        raise ValueError(f"{attribute.name} must be some of {', '.join(WIRES)}")


@attrs.frozen(kw_only=True)
class EndpointSettings:
    """`[plugins.openai.endpoints.<name>]`."""

    base_url: str = attrs.field(validator=_url)
    """With its version path, such as `https://api.example.com/v1`."""
    api_key: str | None = attrs.field(default=None, repr=False, validator=one_line)
    api_key_env: str | None = None
    """Name of the environment variable that holds the key."""
    models: list[str] = attrs.field(factory=list)
    """Names as the endpoint knows them; asked from it where the list is empty."""
    headers: dict[str, str] = attrs.field(factory=dict, repr=False, validator=_headers)
    wires: list[str] = attrs.field(factory=lambda: sorted(USUAL_WIRES), validator=_wires)
    """What it speaks: `chat`, `completions`, `embeddings`, `rerank`, `messages` (Anthropic's),
    `responses`. For clients that speak something else Cerberus translates."""
    local: bool | None = None
    """Whether prompts stay at home. Unset: true for a loopback address."""

    def is_local(self) -> bool:
        if self.local is not None:
            return self.local
        return urlsplit(self.base_url).hostname in ("127.0.0.1", "localhost", "::1")

    def key(self, env: Mapping[str, str] = os.environ) -> str | None:
        """The key, or None where the endpoint needs none.

        Raises KeyError if the variable is unset or holds nothing that can be sent.
        """
        return key_of(self.api_key, self.api_key_env, env)


def _endpoints(
    _: object,
    attribute: "attrs.Attribute[dict[str, EndpointSettings]]",
    value: dict[str, EndpointSettings],
) -> None:
    for name in value:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{attribute.name} has one named {name!r}; letters, digits, dots, dashes and "
                "underscores make a name"
            )


@attrs.frozen(kw_only=True)
class Settings:
    """`[plugins.openai]`."""

    endpoints: dict[str, EndpointSettings] = attrs.field(factory=dict, validator=_endpoints)
