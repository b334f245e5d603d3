"""One try to have audio or images answered: whatever comes, passes as it comes."""

import msgspec

from cerberus_core.errors import UpstreamFailed

from .attempt import Attempt
from .decode import PLAIN, Decoder
from .media import usage_of
from .reading import NO_LIMIT_S
from .sink import Header
from .upstream import Answer, Target
from .ways import Media

_IN_WORDS = ("application/json", "text/plain", "text/vtt", "application/x-subrip", "text/srt")
"""Kinds that are held until they are whole, so that one that breaks is an error."""
EVENTS_TYPE = "text/event-stream"
_encode = msgspec.json.Encoder().encode


class MediaAttempt(Attempt):
    """As `Attempt`, for a `Media` way."""

    async def _open(self) -> None:
        endpoint, way = self._lease.endpoint, self._way
        assert isinstance(way, Media)
        client, target = self._clients.way_to(endpoint, way.path, stream=False)
        headers = {**target.headers, "content-type": way.content_type, "accept": "*/*"}
        asked = way.body(endpoint.model, stream=self._streams, parameters=self._lease.parameters)
        limit_s = self._options.silence_s or None
        try:
            self._upstream = await client.open(
                Target(url=target.url, headers=headers), asked, limit_s
            )
        except TimeoutError:
            raise self._reading.silent() from None

    async def _pass_on(self, answer: Answer) -> None:
        encoding = answer.headers.get("content-encoding")
        decoder = Decoder(encoding) if encoding else PLAIN
        if not 200 <= answer.status < 300:
            raise self._refusal(answer, await self._reading.whole(answer, decoder))
        told = answer.headers.get("content-type", "application/octet-stream")
        kind: Header = (b"content-type", told.encode("latin-1", "replace"))
        plain = told.partition(";")[0].strip().lower()
        if self._client.started and plain != EVENTS_TYPE:
            raise UpstreamFailed(f"{self._name} was asked for a stream and gave a whole answer")
        if plain in _IN_WORDS:
            data = await self._reading.whole(answer, decoder)
            usage = usage_of(data)
            if usage is not None:
                self._facts.take_usage(_encode(usage))
            await self._client.whole(answer.status, data, kind)
            return
        await self._pass_pieces(answer, decoder, kind, events=plain == EVENTS_TYPE)

    async def _pass_pieces(
        self, answer: Answer, decoder: Decoder, kind: Header, *, events: bool
    ) -> None:
        client, facts = self._client, self._facts
        client.kind, client.cuts = kind, not events
        while True:
            chunk = await answer.read(self._options.silence_s or NO_LIMIT_S)
            if chunk is None and self._options.silence_s:
                raise self._reading.silent()
            if chunk == b"":
                break
            if chunk:
                facts.first_at = facts.first_at or self._clock.monotonic()
                await client.piece(decoder.feed(chunk))
        await client.piece(b"", more=False)
