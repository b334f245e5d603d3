"""One-time codes that a person carries from the terminal to the browser."""

import secrets

from cerberus_core.platform import Clock

_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # no 0 O 1 I L U
_LENGTH = 10
LIFE_S = 300.0
WRONG_TRIES = 10
"""Wrong codes allowed a minute, over all callers."""


class OneTimeCodes:
    """Codes good once, for five minutes, guarded against guessing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: dict[str, float] = {}
        self._wrong: list[float] = []

    def issue(self) -> str:
        """A new code."""
        self._forget_old()
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
        self._codes[code] = self._clock.monotonic() + LIFE_S
        return code

    def redeem(self, code: str) -> bool:
        """Use a code up; False if it is unknown, used, too old, or tries came too fast."""
        self._forget_old()
        if len(self._wrong) >= WRONG_TRIES:
            return False
        if self._codes.pop(code.strip().upper(), None) is None:
            self._wrong.append(self._clock.monotonic())
            return False
        return True

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        self._codes = {code: end for code, end in self._codes.items() if end > now}
        self._wrong = [at for at in self._wrong if at > now - 60]
