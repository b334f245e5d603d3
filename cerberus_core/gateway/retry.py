"""Whether a client should ask again after an error, and when. Pure.

The official clients ask twice more after a 408, 409, 429 or 5xx unless they are told
otherwise: each of them would try every fallback again.
"""

from cerberus_core.errors import CerberusError, LimitReached, NoRoom

from .sink import Header
from .upstream_errors import KeptStatus, Refused

MOST_WAIT_S = 60
"""A client that is to wait longer should not ask again by itself."""

_NO = (b"x-should-retry", b"false")


def retry_hint(error: CerberusError, *, tried: bool) -> list[Header]:
    """The headers that say it. `tried`: fallbacks were asked already."""
    headers = list(error.headers) if isinstance(error, Refused) else []
    wait_s = error.retry_after_s
    if wait_s is not None and not any(name == b"retry-after" for name, _ in headers):
        headers.append((b"retry-after", b"%d" % wait_s))
    if tried or _lasts(error) or (wait_s is not None and wait_s > MOST_WAIT_S):
        headers = [header for header in headers if header[0] != _NO[0]]
        headers.append(_NO)
    return headers


def _lasts(error: CerberusError) -> bool:
    """Whether it would come again, however often one asks."""
    if isinstance(error, KeptStatus):
        return error.overflow or error.used_up
    if isinstance(error, LimitReached):
        return error.retry_after_s is None
    # The operator's key or address is wrong; a model is too big, or its file broken.
    return isinstance(error, (Refused, NoRoom)) or error.code == "model_broken"
