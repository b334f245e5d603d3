"""GPUs and energy: what the cards do, and what each answer cost.

Owns the monitor (one reading at a time, only while somebody is answered or
asks), the way from counters and watts to joules, and each request's share of
them. Refuses to know vendors: it is handed mappings of interface objects.
"""

from .ledger import Ledger, Share, Use
from .monitor import Monitor

__all__ = ["Ledger", "Monitor", "Share", "Use"]
