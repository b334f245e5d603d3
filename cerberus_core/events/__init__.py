"""What happens, told to whoever watches.

Owns the bus of live events with its ids and resume. Later rooms of it are the
append-only session logs. It decides nothing and stores nothing on disk.
"""

from .bus import RELOAD, Bus

__all__ = ["RELOAD", "Bus"]
