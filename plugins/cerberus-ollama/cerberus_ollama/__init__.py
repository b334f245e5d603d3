"""Ollama as a Cerberus backend."""

from cerberus_core import hookimpl
from cerberus_core.interfaces import Backend, PluginSetup


@hookimpl
def cerberus_model_backends(setup: PluginSetup) -> list[Backend]:
    from .backend import Ollama
    from .settings import Settings, address

    url = address(setup.settings(Settings))
    return [] if url is None else [Ollama(url)]
