"""Who may come in.

Owns the decisions: is this Host ours, is this Origin ours, is this token or
cookie good, is this one-time code still valid. Pure but for the codes' memory;
`api/` asks them for every request, HTTP and WebSocket alike.
"""

from .codes import OneTimeCodes
from .cookies import COOKIE_MAX_AGE_S, COOKIE_NAME, check_cookie, make_cookie
from .origins import Hosts
from .tokens import bearer_matches

__all__ = [
    "COOKIE_MAX_AGE_S",
    "COOKIE_NAME",
    "Hosts",
    "OneTimeCodes",
    "bearer_matches",
    "check_cookie",
    "make_cookie",
]
