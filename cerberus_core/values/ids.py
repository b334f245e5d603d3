"""ULIDs: 26 characters that sort by the time they were made."""

import time
from random import Random

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
# Two characters at a time: an id is made for every request.
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_bits = Random().getrandbits  # unique, not secret


def new_id(unix_s: float | None = None) -> str:
    """A fresh ULID for `unix_s` (seconds since the epoch; now when None).

    48 bits of milliseconds, then 80 random bits; see the ULID specification.
    """
    millis = int((time.time() if unix_s is None else unix_s) * 1000) & 0xFFFFFFFFFFFF
    random = _bits(80)
    high, low = random >> 40, random & 0xFFFFFFFFFF
    pairs = _PAIRS
    return (
        f"{pairs[millis >> 40]}{pairs[millis >> 30 & 1023]}{pairs[millis >> 20 & 1023]}"
        f"{pairs[millis >> 10 & 1023]}{pairs[millis & 1023]}"
        f"{pairs[high >> 30]}{pairs[high >> 20 & 1023]}{pairs[high >> 10 & 1023]}"
        f"{pairs[high & 1023]}"
        f"{pairs[low >> 30]}{pairs[low >> 20 & 1023]}{pairs[low >> 10 & 1023]}{pairs[low & 1023]}"
    )
