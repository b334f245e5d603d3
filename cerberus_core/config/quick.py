"""Host, port, token and URL for commands that must start in a blink.

Standard library alone: no attrs, cattrs, tomlkit or pluggy. Whatever looks
wrong is handed to the full loader, whose error says what it is.
"""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cerberus_core.platform.files import read_regular

if TYPE_CHECKING:
    from cerberus_core.platform import Folders

HOST = "127.0.0.1"
PORT = 7733
MAX_BYTES = 8 << 20
"""What a file of settings may hold."""


class Quick:
    """`url` is the running daemon's (without a slash at its end), else the one configured.

    `pid` is None where no daemon has left its address; `token` is None where
    none was generated yet.
    """

    __slots__ = ("host", "pid", "port", "token", "url")

    def __init__(
        self, *, host: str, port: int, token: str | None, url: str, pid: int | None
    ) -> None:
        self.host = host
        self.port = port
        self.token = token
        self.url = url
        self.pid = pid

    def __repr__(self) -> str:
        return f"Quick(host={self.host!r}, port={self.port}, url={self.url!r}, pid={self.pid})"


def read(folders: "Folders", env: Mapping[str, str] | None = None) -> Quick:
    """Read file, environment (`os.environ` when None) and daemon file. Raises ConfigError."""
    env = os.environ if env is None else env
    found = _settings(folders, env)
    if found is None:
        from .loader import load

        server = load(folders, env).config.server
        found = server.host, server.port, server.token
    host, port, token = found
    url, pid = _daemon(folders)
    return Quick(host=host, port=port, token=token, url=url or _url(host, port), pid=pid)


def _settings(folders: "Folders", env: Mapping[str, str]) -> tuple[str, int, str | None] | None:
    """None where anything is unusual."""
    server: Any = {}
    try:
        text = read_regular(folders.config_file, MAX_BYTES).decode()
        import tomllib  # not before there is something to read

        server = tomllib.loads(text).get("server", {})
    except FileNotFoundError:
        pass
    except (OSError, ValueError, RecursionError):
        return None
    # Anything in the environment that could touch the section, whatever its case.
    names = [
        name for name in env if name.startswith("CERBERUS_") and name[9:17].upper() == "SERVER__"
    ]
    usual = {"HOST": "host", "PORT": "port", "TOKEN": "token"}
    server = dict(server) if isinstance(server, dict) else {"host": None}
    for name in sorted(names):
        key = usual.get(name[17:])
        if key is None and name[17:].lower() not in ("public_url", "allowed_hosts"):
            return None
        if key and env[name]:
            server[key] = _number(env[name]) if key == "port" else env[name]
    host, port, token = server.get("host", HOST), server.get("port", PORT), server.get("token")
    if not (isinstance(host, str) and _word(host) and type(port) is int and 0 <= port <= 65535):
        return None
    if token is not None and not (isinstance(token, str) and _word(token) and token.isascii()):
        return None
    return host, port, token


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _word(text: str) -> bool:
    return bool(text) and text.isprintable() and " " not in text


def _daemon(folders: "Folders") -> tuple[str | None, int | None]:
    """What the running daemon said of itself; a torn or foreign file says nothing."""
    try:
        with open(folders.daemon_file, encoding="utf-8") as file:
            said = json.load(file)
        url, pid = said["url"], said["pid"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, None
    if not isinstance(url, str) or not url.startswith("http") or type(pid) is not int:
        return None, None
    return url.rstrip("/"), pid


def _url(host: str, port: int) -> str:
    if host in ("0.0.0.0", ""):
        host = HOST
    elif host == "::":
        host = "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
