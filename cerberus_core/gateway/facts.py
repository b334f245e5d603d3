"""What an answer says of itself: tokens and speed. Pure."""

from typing import Any

import attrs
import msgspec


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Timings(msgspec.Struct):
    """llama.cpp's own figures; servers that are built on it send them too."""

    cache_n: int | None = None
    predicted_n: int | None = None
    predicted_per_second: float | None = None
    prompt_n: int | None = None
    prompt_per_second: float | None = None


_decode_usage = msgspec.json.Decoder(_Usage, strict=False).decode
_decode_timings = msgspec.json.Decoder(_Timings, strict=False).decode


@attrs.define
class Facts:
    """Filled in as the answer goes by. Times are seconds of a monotonic clock."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    engine_tok_per_sec: float | None = None
    prefill_tok_per_sec: float | None = None
    pieces: int = 0
    """Stream events with content, about one token each."""
    first_at: float | None = None
    last_at: float | None = None

    def take_usage(self, raw: Any) -> None:
        """Read a `usage` object; one of an odd shape tells nothing."""
        try:
            usage = _decode_usage(raw)
        except (msgspec.MsgspecError, OverflowError, RecursionError):
            return
        self.prompt_tokens = _natural(usage.prompt_tokens, self.prompt_tokens)
        self.completion_tokens = _natural(usage.completion_tokens, self.completion_tokens)
        if usage.prompt_tokens_details is not None:
            self.cached_tokens = _natural(
                usage.prompt_tokens_details.cached_tokens, self.cached_tokens
            )

    def take_timings(self, raw: Any) -> None:
        """Read llama.cpp's `timings`."""
        try:
            timings = _decode_timings(raw)
        except (msgspec.MsgspecError, OverflowError, RecursionError):
            return
        speed = timings.predicted_per_second
        # One token has no duration: the engine then tells a speed of millions.
        if speed is not None and 0 < speed < 1e6 and (timings.predicted_n or 0) > 1:
            self.engine_tok_per_sec = speed
        read = timings.prompt_per_second
        if read is not None and 0 < read < 1e6 and (timings.prompt_n or 0) > 1:
            self.prefill_tok_per_sec = round(read, 2)
        self.cached_tokens = _natural(timings.cache_n, self.cached_tokens)

    @property
    def tokens(self) -> int | None:
        """Completion tokens as told by the engine, else the pieces counted."""
        if self.completion_tokens is not None:
            return self.completion_tokens
        return self.pieces or None

    @property
    def counted(self) -> bool:
        return self.completion_tokens is None and self.pieces > 0

    def tok_per_sec(self) -> float | None:
        """Decode speed: the engine's figure, else tokens after the first over their time."""
        if self.engine_tok_per_sec is not None:
            return round(self.engine_tok_per_sec, 2)
        tokens, first, last = self.tokens, self.first_at, self.last_at
        if tokens is None or tokens < 2 or first is None or last is None or last <= first:
            return None
        return round((tokens - 1) / (last - first), 2)


def _natural(value: int | None, otherwise: int | None) -> int | None:
    return value if value is not None and value >= 0 else otherwise
