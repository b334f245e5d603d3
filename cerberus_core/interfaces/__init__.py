"""One abstract class per kind of plugin.

Owns the contracts; knows nobody who keeps them. A backend's methods are
asynchronous; those of GPU vendors and energy meters block, because their
libraries do, and are called in threads. Calls come under a time limit
where one makes sense; a method that raises anything but a `CerberusError` is
reported as a fault of its plugin.
"""

from .backend import Backend
from .gpu import EnergyMeter, GPUVendor
from .setup import PluginSetup

__all__ = ["Backend", "EnergyMeter", "GPUVendor", "PluginSetup"]
