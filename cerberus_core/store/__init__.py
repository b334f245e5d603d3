"""`state.sqlite`: facts that are learned or given once and looked up by key.

Owns the file, its migrations, and what happens when it can't be read or
written. Knows no meaning: each room keeps its own questions.
"""

from .behind import Statement
from .database import Database

__all__ = ["Database", "Statement"]
