"""The composition root of `cerberus serve`: the only place that knows every room.

Boot goes data first: lock, settings, usage log, then plugins, then the socket.
What is missing degrades; only a broken config or a second daemon stops it.
"""

from .serving import Listening, serve

__all__ = ["Listening", "serve"]
