"""Settings: their schema, and how they are loaded, overridden, saved and shown.

Owns `config.toml` and the `CERBERUS_…__…` names of the environment. Refuses to
guess: a wrong value is an error that names its key, file and line; an unknown
key is a warning. Never shows the value of a secret.

Names are imported on first use, so that `cerberus_core.config.quick` stays
free of attrs, cattrs and tomlkit.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loader import Loaded, load
    from .plugins import plugin_settings
    from .save import ensure_token, set_value, unset_value
    from .schema import (
        Config,
        EnginesConfig,
        GatewayConfig,
        ModelSettings,
        ServerConfig,
        UsageConfig,
    )
    from .shown import public

__all__ = [
    "Config",
    "EnginesConfig",
    "GatewayConfig",
    "Loaded",
    "ModelSettings",
    "ServerConfig",
    "UsageConfig",
    "ensure_token",
    "load",
    "plugin_settings",
    "public",
    "set_value",
    "unset_value",
]

_HOMES = {
    "loader": ("Loaded", "load"),
    "plugins": ("plugin_settings",),
    "save": ("ensure_token", "set_value", "unset_value"),
    "schema": (
        "Config",
        "EnginesConfig",
        "GatewayConfig",
        "ModelSettings",
        "ServerConfig",
        "UsageConfig",
    ),
    "shown": ("public",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
