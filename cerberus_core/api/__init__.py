"""HTTP: the admin API, the guard before everything, and the UI's files.

Owns the mapping of errors and values to HTTP and back. Decides nothing: each
controller asks one room and hands on what it says.
"""

from .app import build
from .services import Services

__all__ = ["Services", "build"]
