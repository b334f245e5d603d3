"""ULIDs: 26 characters that sort by the time they were made."""

import time
from datetime import UTC, datetime
from random import Random

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
# Two characters at a time: an id is made for every request.
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_bits = Random().getrandbits  # unique, not secret


def time_of(made: str) -> datetime | None:
    """When a ULID was made (UTC), to the millisecond; None for what is none."""
    if len(made) != 26 or not set(made) <= set(_ALPHABET):
        return None
    millis = 0
    for character in made[:10]:
        millis = millis << 5 | _ALPHABET.index(character)
    try:
        return datetime.fromtimestamp(millis / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def new_id(unix_s: float | None = None) -> str:
    """A fresh ULID for `unix_s` (seconds since the epoch; now when None).

    48 bits of milliseconds, then 80 random bits; see the ULID specification.
    """
    millis = int((time.time() if unix_s is None else unix_s) * 1000) & 0xFFFFFFFFFFFF
    high, low = _bits(40), _bits(40)
    pairs = _PAIRS
    return (
        f"{pairs[millis >> 40]}{pairs[millis >> 30 & 1023]}{pairs[millis >> 20 & 1023]}"
        f"{pairs[millis >> 10 & 1023]}{pairs[millis & 1023]}"
        f"{pairs[high >> 30]}{pairs[high >> 20 & 1023]}{pairs[high >> 10 & 1023]}"
        f"{pairs[high & 1023]}"
        f"{pairs[low >> 30]}{pairs[low >> 20 & 1023]}{pairs[low >> 10 & 1023]}{pairs[low & 1023]}"
    )
