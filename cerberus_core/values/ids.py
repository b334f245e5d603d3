"""ULIDs: 26 characters that sort by the time they were made."""

import os
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
# Two characters at a time: an id is made for every request.
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_SHIFTS = range(120, -1, -10)


def new_id(unix_s: float | None = None) -> str:
    """A fresh ULID for `unix_s` (seconds since the epoch; now when None).

    48 bits of milliseconds, then 80 random bits; see the ULID specification.
    """
    millis = int((time.time() if unix_s is None else unix_s) * 1000)
    number = (millis << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])
