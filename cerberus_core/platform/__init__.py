"""What differs between operating systems, and the clock.

Owns folders, file locks, process groups and time. Linux first; darwin and
windows stand behind the same names, so that everything else is written once.
Plugins may import from here.
"""

from .clock import Clock, SystemClock
from .locks import FileLock
from .paths import Folders, folders
from .processes import Child, Exit, spawn, tail

__all__ = [
    "Child",
    "Clock",
    "Exit",
    "FileLock",
    "Folders",
    "SystemClock",
    "folders",
    "spawn",
    "tail",
]
