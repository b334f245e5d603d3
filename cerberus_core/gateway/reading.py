"""An endpoint's answer, read to its end under a limit on its silence."""

import attrs

from cerberus_core.errors import UpstreamFailed

from .assemble import Assembler, TooManyParts
from .decode import Decoder
from .upstream import Answer

WHOLE_LIMIT = 64 << 20
"""Bytes of an answer that is held as a whole; a larger one is refused."""
NO_LIMIT_S = 3600.0


@attrs.frozen(kw_only=True)
class Reading:
    """How to read the answers of `name`; `silence_s` 0 means without a limit."""

    name: str
    silence_s: float

    async def whole(self, answer: Answer, decoder: Decoder) -> bytes:
        """All of it. Raises `UpstreamFailed`, `ConnectionLost`."""
        pieces: list[bytes] = []
        size = 0
        while chunk := await self._next(answer):
            pieces.append(decoder.feed(chunk))
            size += len(pieces[-1])
            if size > WHOLE_LIMIT:
                raise self._too_long()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def assembled(self, answer: Answer, decoder: Decoder, whole: Assembler) -> bytes:
        """A stream as the whole answer. Raises also what `Assembler.feed` raises."""
        size = 0
        while not whole.done and (chunk := await self._next(answer)):
            plain = decoder.feed(chunk)
            size += len(plain)
            if size > WHOLE_LIMIT:
                raise self._too_long()
            try:
                whole.feed(plain)
            except TooManyParts:
                raise UpstreamFailed(f"{self.name} answered in more parts than can be") from None
        if not whole.complete:
            raise self.cut_off()
        return whole.answer()

    def cut_off(self) -> UpstreamFailed:
        return UpstreamFailed(
            f"{self.name} closed the answer before it was finished: it is cut off",
            hint="Its own log may tell why.",
            code="answer_cut_off",
        )

    def silent(self) -> UpstreamFailed:
        return UpstreamFailed(
            f"{self.name} sent nothing for {self.silence_s:g} s",
            hint="The limit is `gateway.silence_s` in config.toml; 0 switches it off.",
            code="upstream_silent",
        )

    def _too_long(self) -> UpstreamFailed:
        return UpstreamFailed(f"{self.name} answered with more than {WHOLE_LIMIT >> 20} MiB")

    async def _next(self, answer: Answer) -> bytes:
        while True:
            chunk = await answer.read(self.silence_s or NO_LIMIT_S)
            if chunk is not None:
                return chunk
            if self.silence_s:
                raise self.silent()
