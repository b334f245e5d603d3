"""`[plugins.lmstudio]`, and where LM Studio is without it."""

import os
import shutil
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import attrs

DEFAULT_URL = "http://127.0.0.1:1234"


def _url(_: object, attribute: "attrs.Attribute[str | None]", value: str | None) -> None:
    if value is not None and not _is_url(value):
        raise ValueError(
            f"{attribute.name} must be an address such as {DEFAULT_URL}, without a path"
        )


def _is_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of a port that is none, half an IPv6 address
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return bool(good) and value.isascii() and plain and parts.path in ("", "/")


def _one_line(_: object, attribute: "attrs.Attribute[str | None]", value: str | None) -> None:
    if value is not None and not _sendable(value):  # the value may be a secret
        raise ValueError(f"{attribute.name} must be one line of plain characters")


def _sendable(key: str) -> bool:
    return key.isprintable() and key.isascii() and key.strip() != ""


@attrs.frozen(kw_only=True)
class Settings:
    """`[plugins.lmstudio]`."""

    base_url: str | None = attrs.field(default=None, validator=_url)
    """Unset: this machine's where LM Studio is installed."""
    api_key: str | None = attrs.field(default=None, repr=False, validator=_one_line)
    """An API token of LM Studio, where its server asks for one."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the token."""

    def key(self, env: Mapping[str, str] = os.environ) -> str | None:
        """The token, or None where there is none. KeyError if its variable is unset or odd."""
        if self.api_key is not None or self.api_key_env is None:
            return self.api_key
        key = env[self.api_key_env].strip()
        if not _sendable(key):
            raise KeyError(self.api_key_env)
        return key


def find_lms() -> str | None:
    """The program `lms`: on PATH, or where LM Studio puts it."""
    return shutil.which("lms") or shutil.which("lms", path=Path.home() / ".lmstudio" / "bin")


def address(settings: Settings, lms: str | None) -> str | None:
    """Where LM Studio is to be asked; None where nothing says that there is one."""
    if settings.base_url is not None:
        return settings.base_url.rstrip("/")
    return DEFAULT_URL if lms else None


def is_local(url: str) -> bool:
    """Whether it is this machine: a loopback address."""
    name = urlsplit(url).hostname or ""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
