"""Figures for Prometheus: counted as records come, and written out when asked for.

Owns the metrics' names, labels and buckets; nothing of it is shared between two
daemons of one process. Refuses to look for facts itself: what there is now is
handed in as a `Moment`. `exposition` imports the client and is left to who
writes a page.
"""

from .moment import Moment
from .tallies import MAX_MODELS, OTHER, UNKNOWN, Tallies

__all__ = ["MAX_MODELS", "OTHER", "UNKNOWN", "Moment", "Tallies"]
