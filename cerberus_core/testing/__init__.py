"""For tests, of plugin authors and of our own: conformance kit, fakes, fixtures.

Public: a plugin's tests may import everything here. Nothing outside tests does.
Fakes here are real programs on loopback.
"""

from .clock import FakeClock
from .conformance import check_backends, check_energy_meters, check_gpu_vendors, check_package
from .scripted import Received, Reply, ScriptedServer

__all__ = [
    "FakeClock",
    "Received",
    "Reply",
    "ScriptedServer",
    "check_backends",
    "check_energy_meters",
    "check_gpu_vendors",
    "check_package",
]
