"""Settings: their schema, and how they are loaded, overridden, saved and shown.

Owns `config.toml`, which is followed while a daemon runs, and the `CERBERUS_…__…`
names of the environment. Refuses to guess: a wrong value is an error that names
its key, file and line; an unknown key is a warning. Never shows the value of a
secret.

Names are imported on first use, so that `cerberus_core.config.quick` stays
free of attrs, cattrs and tomlkit.
"""

from typing import TYPE_CHECKING

from cerberus_core.lazy import on_first_use

if TYPE_CHECKING:
    from .changes import Change, diff, effect_of, in_force, unloaded_yet
    from .current import Current
    from .edit import key_path
    from .follow import Follow
    from .loader import Draft, Loaded, load
    from .save import ensure_token, set_value, unset_value
    from .schema import (
        Config,
        EnginesConfig,
        GatewayConfig,
        ModelPrice,
        ModelSettings,
        ServerConfig,
        UsageConfig,
    )
    from .secrecy import public
    from .structure import plugin_settings
    from .watch import content

__all__ = [
    "Change",
    "Config",
    "Current",
    "Draft",
    "EnginesConfig",
    "Follow",
    "GatewayConfig",
    "Loaded",
    "ModelPrice",
    "ModelSettings",
    "ServerConfig",
    "UsageConfig",
    "content",
    "diff",
    "effect_of",
    "ensure_token",
    "in_force",
    "key_path",
    "load",
    "plugin_settings",
    "public",
    "set_value",
    "unloaded_yet",
    "unset_value",
]

__getattr__ = on_first_use(
    __name__,
    {
        "current": ("Current",),
        "changes": ("Change", "diff", "effect_of", "in_force", "unloaded_yet"),
        "edit": ("key_path",),
        "follow": ("Follow",),
        "loader": ("Draft", "Loaded", "load"),
        "save": ("ensure_token", "set_value", "unset_value"),
        "schema": (
            "Config",
            "EnginesConfig",
            "GatewayConfig",
            "ModelPrice",
            "ModelSettings",
            "ServerConfig",
            "UsageConfig",
        ),
        "secrecy": ("public",),
        "structure": ("plugin_settings",),
        "watch": ("content",),
    },
)
