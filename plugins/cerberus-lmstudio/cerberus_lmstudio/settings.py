"""`[plugins.lmstudio]`, and where LM Studio is without it."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import attrs

from cerberus_core.servers import key_of, one_line, server_address

DEFAULT_URL = "http://127.0.0.1:1234"


@attrs.frozen(kw_only=True)
class Settings:
    """`[plugins.lmstudio]`."""

    base_url: str | None = attrs.field(default=None, validator=server_address(DEFAULT_URL))
    """Unset: this machine's where LM Studio is installed."""
    api_key: str | None = attrs.field(default=None, repr=False, validator=one_line)
    """An API token of LM Studio, where its server asks for one."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the token."""

    def key(self, env: Mapping[str, str] = os.environ) -> str | None:
        """The token, or None where there is none. KeyError if its variable is unset or odd."""
        return key_of(self.api_key, self.api_key_env, env)


def find_lms() -> str | None:
    """The program `lms`: on PATH, or where LM Studio puts it."""
    return shutil.which("lms") or shutil.which("lms", path=Path.home() / ".lmstudio" / "bin")


def address(settings: Settings, lms: str | None) -> str | None:
    """Where LM Studio is to be asked; None where nothing says that there is one."""
    if settings.base_url is not None:
        return settings.base_url.rstrip("/")
    return DEFAULT_URL if lms else None
