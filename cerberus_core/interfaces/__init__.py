"""One abstract class per kind of plugin, with asynchronous methods.

Owns the contracts; knows nobody who keeps them. Calls come under a time limit
where one makes sense; a method that raises anything but a `CerberusError` is
reported as a fault of its plugin.
"""

from .backend import Backend
from .setup import PluginSetup

__all__ = ["Backend", "PluginSetup"]
