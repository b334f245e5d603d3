"""Engine processes: how one is started, watched until it answers, and stopped.

Owns the two kinds (a `llama-server` binary, the embedded engine), their keys
and ports. Knows nothing of files, names or pulls.
"""

from .binary import Binary, find_binary
from .embedded import Embedded
from .launch import Kind, Launch
from .running import Engine, start

__all__ = ["Binary", "Embedded", "Engine", "Kind", "Launch", "find_binary", "start"]
