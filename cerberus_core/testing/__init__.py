"""For tests, of plugin authors and of our own: conformance kit, fakes, fixtures.

Public: a plugin's tests may import everything here. Nothing outside tests does.
Fakes here are real programs on loopback.

Names are imported on first use: `python -m` wants the scripted server unimported.
"""

from typing import TYPE_CHECKING

from cerberus_core.lazy import on_first_use

if TYPE_CHECKING:
    from .clock import FakeClock
    from .conformance import (
        check_backends,
        check_energy_meters,
        check_gpu_vendors,
        check_package,
    )
    from .listener import Listener
    from .scripted import Received, Reply, ScriptedServer
    from .stand_in import Answer, Asked, StandIn, Talker

__all__ = [
    "Answer",
    "Asked",
    "FakeClock",
    "Listener",
    "Received",
    "Reply",
    "ScriptedServer",
    "StandIn",
    "Talker",
    "check_backends",
    "check_energy_meters",
    "check_gpu_vendors",
    "check_package",
]

__getattr__ = on_first_use(
    __name__,
    {
        "clock": ("FakeClock",),
        "conformance": (
            "check_backends",
            "check_energy_meters",
            "check_gpu_vendors",
            "check_package",
        ),
        "listener": ("Listener",),
        "scripted": ("Received", "Reply", "ScriptedServer"),
        "stand_in": ("Answer", "Asked", "StandIn", "Talker"),
    },
)
