"""One-time codes that a person carries from the terminal to the browser."""

import secrets

from cerberus_core.platform import Clock

_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # no 0 O 1 I L U
_LENGTH = 10
LIFE_S = 300.0


class OneTimeCodes:
    """Codes good once, for five minutes.

    Wrong tries are not counted: a code is one of 30^10, and who tries ten
    thousand a second for all its life hits it once in two hundred million
    times. A lock would only let strangers keep the right one out.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: dict[str, float] = {}

    def issue(self) -> str:
        """A new code."""
        self._forget_old()
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
        self._codes[code] = self._clock.monotonic() + LIFE_S
        return code

    def redeem(self, code: str) -> bool:
        """Use a code up; False if it is unknown, used or too old."""
        self._forget_old()
        return self._codes.pop(code.strip().upper(), None) is not None

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        self._codes = {code: end for code, end in self._codes.items() if end > now}
