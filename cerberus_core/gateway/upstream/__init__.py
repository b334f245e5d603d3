"""Connections to engines and endpoints.

One small interface (open, read, close) with two clients behind it: a lean one
for plain HTTP on loopback, aiohttp for everything else. Measured: the client
is what a relay costs most.
"""

from .interface import Answer, Client, ConnectionLost, Target
from .lean import LeanClient
from .remote import RemoteClient

__all__ = ["Answer", "Client", "ConnectionLost", "LeanClient", "RemoteClient", "Target"]
