"""The browser's cookie: signed with the token, so that it needs no storage.

A new token (`cerberus config set server.token …`) ends every browser session.
"""

import hashlib
import hmac
import secrets

COOKIE_NAME = "cerberus_session"
COOKIE_MAX_AGE_S = 30 * 24 * 3600


def make_cookie(token: str, now_s: float) -> str:
    """A cookie value that is good from `now_s` (seconds since the epoch) for 30 days."""
    payload = f"{int(now_s)}.{secrets.token_urlsafe(12)}"
    return f"{payload}.{_sign(token, payload)}"


def check_cookie(value: str, token: str, now_s: float) -> bool:
    """Whether `make_cookie` made it with this token, and not too long ago."""
    payload, _, signature = value.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _sign(token, payload).encode()):
        return False
    issued = payload.partition(".")[0]
    return issued.isdigit() and int(issued) <= now_s + 60 < int(issued) + COOKIE_MAX_AGE_S


def _sign(token: str, payload: str) -> str:
    key = hashlib.sha256(b"cerberus cookie\0" + token.encode()).digest()
    return hmac.new(key, payload.encode(), hashlib.sha256).hexdigest()
