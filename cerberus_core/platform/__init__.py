"""What differs between operating systems, and the clock.

Owns folders, file locks, listening sockets, process groups, threads that may hang, and
time. Linux first; darwin and windows stand behind the same names, so that everything else
is written once.
Plugins may import from here. Names are imported on first use: the quick
commands need folders and locks, and not asyncio.
"""

from typing import TYPE_CHECKING

from cerberus_core.lazy import on_first_use

if TYPE_CHECKING:
    from .clock import Clock, SystemClock, woken
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
    "woken",
]

__getattr__ = on_first_use(
    __name__,
    {
        "clock": ("Clock", "SystemClock", "woken"),
        "deadline": ("Deadline",),
        "locks": ("FileLock",),
        "paths": ("Folders", "folders"),
        "processes": ("Child", "Exit", "spawn", "tail"),
        "threads": ("in_daemon_thread",),
    },
)
