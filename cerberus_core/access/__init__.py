"""Who may come in, and what a gateway key may use.

Owns the decisions: is this Host ours, is this Origin ours, is this token, key or
cookie good, is this one-time code still valid, may this key make this request.
Pure but for the codes' memory and the keys' books, which lie in the state file;
`api/` asks them for every request, HTTP and WebSocket alike, and `gateway/` for
every request of a key.
"""

from .account import Account, Reservation
from .codes import OneTimeCodes
from .cookies import COOKIE_MAX_AGE_S, COOKIE_NAME, check_cookie, make_cookie
from .key import Key, Limit, Per, What
from .keys import Keys
from .limits import Amounts, renews_at
from .origins import Hosts
from .prices import Prices
from .principal import OWNER, Principal
from .tokens import bearer, bearer_matches, is_key_token, same

__all__ = [
    "COOKIE_MAX_AGE_S",
    "COOKIE_NAME",
    "OWNER",
    "Account",
    "Amounts",
    "Hosts",
    "Key",
    "Keys",
    "Limit",
    "OneTimeCodes",
    "Per",
    "Prices",
    "Principal",
    "Reservation",
    "What",
    "bearer",
    "bearer_matches",
    "check_cookie",
    "is_key_token",
    "make_cookie",
    "renews_at",
    "same",
]
