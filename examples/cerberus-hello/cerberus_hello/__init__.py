"""The smallest plugin: one hook. Everything heavy is imported inside it."""

from cerberus_core import hookimpl
from cerberus_core.interfaces import Backend, PluginSetup


@hookimpl
def cerberus_model_backends(setup: PluginSetup) -> list[Backend]:
    from .backend import Hello, Settings

    return [Hello(setup.settings(Settings))]
