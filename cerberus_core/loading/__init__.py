"""Plugins: found, imported, matched against the hooks, and reported on.

Owns the way from an entry point to objects that keep an interface. stevedore
imports, pluggy matches; whatever goes wrong with one plugin is one line in its
report, and the others go on. Nothing here knows what the objects do. Plugins
are trusted code: one that ends the process (`os._exit`) can't be survived.

Names are imported on first use, so that commands can be listed without pluggy.
"""

from typing import TYPE_CHECKING

from cerberus_core.lazy import on_first_use

if TYPE_CHECKING:
    from .commands import load_command
    from .declared import settings_class
    from .discover import installed_plugins
    from .names import plugin_command_names
    from .plugins import Plugins, load_plugin, load_plugins

__all__ = [
    "Plugins",
    "installed_plugins",
    "load_command",
    "load_plugin",
    "load_plugins",
    "plugin_command_names",
    "settings_class",
]

__getattr__ = on_first_use(
    __name__,
    {
        "commands": ("load_command",),
        "declared": ("settings_class",),
        "discover": ("installed_plugins",),
        "names": ("plugin_command_names",),
        "plugins": ("Plugins", "load_plugin", "load_plugins"),
    },
)
