"""`[plugins.ollama]`, and where Ollama is without it."""

import os
import shutil
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import attrs

from cerberus_core.servers import is_address, server_address

DEFAULT_PORT = 11434
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"


@attrs.frozen(kw_only=True)
class Settings:
    """`[plugins.ollama]`."""

    base_url: str | None = attrs.field(default=None, validator=server_address(DEFAULT_URL))
    """Unset: `OLLAMA_HOST`, else this machine's where the program `ollama` is installed."""


def address(
    settings: Settings,
    env: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
) -> str | None:
    """Where Ollama is to be asked; None where nothing says that there is one."""
    if settings.base_url is not None:
        return settings.base_url.rstrip("/")
    if env.get("OLLAMA_HOST", "").strip():
        return from_host(env["OLLAMA_HOST"])
    return DEFAULT_URL if which("ollama") else None


def from_host(host: str) -> str:
    """`OLLAMA_HOST` as an address: every form that Ollama takes, `0.0.0.0` means this machine."""
    text = host.strip().strip("\"'")
    scheme, sep, rest = text.partition("://")
    if not sep:
        scheme, rest = "http", text
    rest = rest.partition("/")[0]
    try:
        parts = urlsplit(f"//{rest if rest.count(':') < 2 or '[' in rest else f'[{rest}]'}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return DEFAULT_URL
    if port is None:
        port = {"http": DEFAULT_PORT if not sep else 80, "https": 443}.get(scheme, DEFAULT_PORT)
    if name in ("0.0.0.0", "::"):
        name = "127.0.0.1"
    url = f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"
    return url if is_address(url) else DEFAULT_URL
