"""AMD cards, read from sysfs and by amdsmi."""

from cerberus_core import hookimpl
from cerberus_core.interfaces import GPUVendor, PluginSetup


@hookimpl
def cerberus_gpu_vendors(setup: PluginSetup) -> list[GPUVendor]:
    from .settings import Settings
    from .vendor import AmdVendor

    settings = setup.settings(Settings)
    return [AmdVendor(settings.sysfs, use_amdsmi=settings.amdsmi)]
