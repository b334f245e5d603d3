"""`[plugins.openai]`: any number of named endpoints."""

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import attrs

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _url(_: object, attribute: "attrs.Attribute[str]", value: str) -> None:
    try:
        parts = urlsplit(value)
        good = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        (parts.hostname or "").encode("idna")
    except (ValueError, UnicodeError):
        good = False
    if not good or parts.scheme not in ("http", "https") or not value.isascii():
        raise ValueError(f"must be an address such as https://api.example.com/v1, not {value!r}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("must hold no user, query or fragment; a key goes into `api_key`")


def _one_line(_: object, attribute: "attrs.Attribute[str | None]", value: str | None) -> None:
    if value is not None and (not value.isprintable() or not value.isascii() or not value.strip()):
        raise ValueError("must be one line of plain characters")  # the value may be a secret


def _headers(
    _: object, attribute: "attrs.Attribute[dict[str, str]]", value: dict[str, str]
) -> None:
    for name, text in value.items():
        if not _HEADER.fullmatch(name) or not text.isprintable() or not text.isascii():
            raise ValueError(f"has a header that can't be sent: {name!r}")


@attrs.frozen(kw_only=True)
class EndpointSettings:
    """`[plugins.openai.endpoints.<name>]`."""

    base_url: str = attrs.field(validator=_url)
    """With its version path, such as `https://api.example.com/v1`."""
    api_key: str | None = attrs.field(default=None, repr=False, validator=_one_line)
    api_key_env: str | None = None
    """Name of the environment variable that holds the key."""
    models: list[str] = attrs.field(factory=list)
    """Names as the endpoint knows them; asked from it where the list is empty."""
    headers: dict[str, str] = attrs.field(factory=dict, repr=False, validator=_headers)
    local: bool | None = None
    """Whether prompts stay at home. Unset: true for a loopback address."""

    def is_local(self) -> bool:
        if self.local is not None:
            return self.local
        return urlsplit(self.base_url).hostname in ("127.0.0.1", "localhost", "::1")

    def key(self, env: Mapping[str, str] = os.environ) -> str | None:
        """The key, or None where the endpoint needs none. Raises KeyError if it is unset."""
        if self.api_key is not None:
            return self.api_key
        return env[self.api_key_env].strip() if self.api_key_env is not None else None


def _endpoints(
    _: object,
    attribute: "attrs.Attribute[dict[str, EndpointSettings]]",
    value: dict[str, EndpointSettings],
) -> None:
    for name in value:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"has an endpoint named {name!r}; letters, digits, dots, dashes and "
                "underscores make a name"
            )


@attrs.frozen(kw_only=True)
class Settings:
    """`[plugins.openai]`."""

    endpoints: dict[str, EndpointSettings] = attrs.field(factory=dict, validator=_endpoints)
