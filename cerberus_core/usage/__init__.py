"""The record of every finished request, and the prompts of keys that ask for it.

Owns the usage log: JSON Lines files in one folder, and the last records in
memory. It never makes a request wait: records go through a bounded queue to
one writing thread, and a full disk costs the file, not the answer.
"""

from .prompts import Prompt, Prompts
from .store import Store

__all__ = ["Prompt", "Prompts", "Store"]
