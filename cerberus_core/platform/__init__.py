"""What differs between operating systems, and the clock.

Owns folders, file locks, listening sockets, process groups, threads that may hang, and
time. Linux first; darwin and windows stand behind the same names, so that everything else
is written once.
Plugins may import from here. Names are imported on first use: the quick
commands need folders and locks, and not asyncio.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clock import Clock, SystemClock
    from .deadline import Deadline
    from .locks import FileLock
    from .paths import Folders, folders
    from .processes import Child, Exit, spawn, tail
    from .threads import in_daemon_thread

__all__ = [
    "Child",
    "Clock",
    "Deadline",
    "Exit",
    "FileLock",
    "Folders",
    "SystemClock",
    "folders",
    "in_daemon_thread",
    "spawn",
    "tail",
]

_HOMES = {
    "clock": ("Clock", "SystemClock"),
    "deadline": ("Deadline",),
    "locks": ("FileLock",),
    "paths": ("Folders", "folders"),
    "processes": ("Child", "Exit", "spawn", "tail"),
    "threads": ("in_daemon_thread",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
