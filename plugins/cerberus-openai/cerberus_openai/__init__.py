"""Any OpenAI-shaped endpoint as a Cerberus backend."""

from cerberus_core import hookimpl
from cerberus_core.interfaces import Backend, PluginSetup


@hookimpl
def cerberus_model_backends(setup: PluginSetup) -> list[Backend]:
    from .backend import OpenAIBackend
    from .settings import Settings

    settings = setup.settings(Settings)
    return [OpenAIBackend(name, endpoint) for name, endpoint in settings.endpoints.items()]
