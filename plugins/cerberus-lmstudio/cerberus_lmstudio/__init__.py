"""LM Studio as a Cerberus backend."""

from cerberus_core import hookimpl
from cerberus_core.interfaces import Backend, PluginSetup


@hookimpl
def cerberus_model_backends(setup: PluginSetup) -> list[Backend]:
    from .backend import LMStudio
    from .settings import Settings, address, find_lms

    settings = setup.settings(Settings)
    lms = find_lms()
    url = address(settings, lms)
    return [] if url is None else [LMStudio(url, settings, lms)]
