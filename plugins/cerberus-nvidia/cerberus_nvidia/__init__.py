"""NVIDIA cards, read by NVML."""

from cerberus_core import hookimpl
from cerberus_core.interfaces import GPUVendor, PluginSetup


@hookimpl
def cerberus_gpu_vendors(setup: PluginSetup) -> list[GPUVendor]:
    from .vendor import NvidiaVendor

    return [NvidiaVendor()]
