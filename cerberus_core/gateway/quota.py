"""What a provider says of its limits: how far they are used, and when they renew. Pure.

Headers are those of https://platform.openai.com/docs/guides/rate-limits and
https://docs.anthropic.com/en/api/rate-limits, which others use too.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from .sink import Header

RETRY_AFTER = "retry-after"
_ALONE = (RETRY_AFTER, "retry-after-ms", "x-should-retry")
_OPENAI, _ANTHROPIC = "x-ratelimit-", "anthropic-ratelimit-"
_SPAN = re.compile(
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d*)?)s)?(?:(\d+(?:\.\d*)?)ms)?"
)
_FACTORS = (86400.0, 3600.0, 60.0, 1.0, 0.001)
_EPOCH_S, _EPOCH_MS = 1e9, 1e11
"""A number from there on is a moment and no span of time."""
_LONGEST_S = 366 * 86400.0


def passed_on(headers: Mapping[str, str]) -> list[Header]:
    """Those headers that a client of the same wire may see, as they came."""
    return [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
        if name in _ALONE or name.startswith((_OPENAI, _ANTHROPIC))
    ]


def wait_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds until asking again may help; None where the provider doesn't say.

    Its plain word counts, else the latest renewal of a limit of which nothing is left.
    """
    ms = _number(headers.get("retry-after-ms"))
    if ms is not None:
        return _sane(ms / 1000)
    plain = headers.get(RETRY_AFTER)
    if plain is not None:
        return _sane(_span_s(plain, now))
    resets = [
        span
        for name, value in headers.items()
        if (remaining := _remaining(name)) is not None
        and headers.get(remaining, "0").strip() == "0"
        and (span := _sane(_span_s(value, now))) is not None
    ]
    return max(resets, default=None)


def _remaining(name: str) -> str | None:
    """The header that says how much is left, of one that says when it renews."""
    if name.startswith(_OPENAI + "reset"):
        return name.replace("reset", "remaining", 1)
    if name.startswith(_ANTHROPIC) and name.endswith("-reset"):
        return name.removesuffix("reset") + "remaining"
    return None


def _span_s(text: str, now: datetime) -> float | None:
    """`12`, `1m30.5s`, `120ms`, a moment as a number, an ISO or an HTTP date."""
    text = text.strip()
    number = _number(text)
    if number is not None:
        if number >= _EPOCH_MS:
            return number / 1000 - now.timestamp()
        return number - now.timestamp() if number >= _EPOCH_S else number
    match = _SPAN.fullmatch(text)
    if match and any(match.groups()):
        return sum(float(n) * factor for n, factor in zip(match.groups("0"), _FACTORS, strict=True))
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
            return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
        except (ValueError, OverflowError):
            continue
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _sane(seconds: float | None) -> float | None:
    """Nothing negative; None for what nobody can mean."""
    return None if seconds is None or seconds > _LONGEST_S else max(0.0, seconds)
