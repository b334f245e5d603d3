"""llama.cpp for Cerberus: GGUF files in a `llama-server` binary or the embedded engine."""

from cerberus_core import hookimpl
from cerberus_core.interfaces import Backend, PluginSetup


@hookimpl
def cerberus_model_backends(setup: PluginSetup) -> list[Backend]:
    from .backend import LlamaCpp
    from .settings import Settings

    return [LlamaCpp(setup, setup.settings(Settings))]
