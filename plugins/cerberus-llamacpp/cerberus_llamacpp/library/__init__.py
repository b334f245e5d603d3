"""The GGUF files of this machine, as models.

Owns what counts as a model: shards are one, a projector belongs to its model,
a broken file is listed with the reason. Only looks; changes nothing.
"""

from .found import Found
from .scan import Library
from .shared import SharedScan

__all__ = ["Found", "Library", "SharedScan"]
