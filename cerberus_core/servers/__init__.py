"""Model servers of others, from a backend's side: their address, their key, their HTTP.

Public: for plugins that sit before a server such as Ollama. Owns what can be
said of any of them; refuses to know one.

Names are imported on first use: settings want no HTTP client.
"""

from typing import TYPE_CHECKING

from cerberus_core.lazy import on_first_use

if TYPE_CHECKING:
    from .client import ASK_LIMIT_S, ModelServer, Refused
    from .settings import is_address, is_local, key_of, one_line, server_address

__all__ = [
    "ASK_LIMIT_S",
    "ModelServer",
    "Refused",
    "is_address",
    "is_local",
    "key_of",
    "one_line",
    "server_address",
]

__getattr__ = on_first_use(
    __name__,
    {
        "client": ("ASK_LIMIT_S", "ModelServer", "Refused"),
        "settings": ("is_address", "is_local", "key_of", "one_line", "server_address"),
    },
)
