"""One try to have a request answered by one model, which is loaded and ours: the hot path."""

from collections.abc import Callable
from typing import Any

from cerberus_core.engines import Lease
from cerberus_core.errors import CerberusError, EngineLost, Unavailable, UpstreamFailed
from cerberus_core.platform import Clock

from . import body
from .assemble import Assembler
from .client import LEAST_S, Client, Voice
from .clients import Clients
from .decode import PLAIN, Decoder
from .facts import Facts
from .options import Options
from .quota import passed_on
from .reading import NO_LIMIT_S, Reading
from .stream import UpstreamError
from .upstream import Answer, ConnectionLost
from .upstream_errors import KeptStatus, excerpt, message_of, refusal
from .ways import AnswerStream, Way

KEEP_ALIVE = "keep-alive"


class Attempt:
    """`run` once, `close` on every path."""

    def __init__(
        self,
        lease: Lease,
        way: Way,
        client: Client,
        facts: Facts,
        *,
        streams: bool,
        figures: Callable[[], dict[str, Any]],
        clients: Clients,
        options: Options,
        clock: Clock,
    ) -> None:
        """`streams`: the client wants a stream. `figures`: what is known of it so far."""
        self._lease = lease
        self._way = way
        self._client = client
        self._facts = facts
        self._streams = streams
        self._figures = figures
        self._clients = clients
        self._options = options
        self._clock = clock
        self._upstream: Answer | None = None
        self._name = lease.model.id
        self._renamed = lease.endpoint.model != lease.model.id

    async def run(self) -> None:
        """Ask, and pass the answer on. Raises `CerberusError`, `sse.TooLong`."""
        try:
            if self._streams:
                await self._client.patiently(self._open(), lambda: KEEP_ALIVE)
            else:
                await self._open()
            assert self._upstream is not None
            await self._pass_on(self._upstream)
        except ConnectionLost as lost:
            raise await self._connection_error(lost) from None

    def close(self) -> None:
        """Hang up; the endpoint hears it if it still answers."""
        if self._upstream is not None:
            self._upstream.close()

    async def _open(self) -> None:
        endpoint, way = self._lease.endpoint, self._way
        stream = self._streams or (endpoint.stream_to_cancel and way.can_stream)
        client, target = self._clients.way_to(endpoint, way.path, stream=stream)
        asked = way.body(endpoint.model, stream=stream, parameters=self._lease.parameters)
        try:
            self._upstream = await client.open(target, asked, self._options.silence_s or None)
        except TimeoutError:
            raise self._reading.silent() from None

    async def _pass_on(self, answer: Answer) -> None:
        encoding = answer.headers.get("content-encoding")
        decoder = Decoder(encoding) if encoding else PLAIN
        if not 200 <= answer.status < 300:
            raise self._refusal(answer, await self._reading.whole(answer, decoder))
        provider = self._way.refusals_pass and not self._lease.endpoint.local
        self._client.quota = passed_on(answer.headers) if provider else ()
        streams = answer.headers.get("content-type", "").partition(";")[0] == "text/event-stream"
        if streams and self._streams:
            await self._pass_stream(answer, decoder)
        elif streams:
            whole = Assembler(self._facts, now=self._clock.monotonic)
            try:
                data = await self._reading.assembled(answer, decoder, whole)
            except UpstreamError as error:
                raise self._told(error.payload) from None
            await self._pass_whole(answer, data)
            await answer.rest()
        else:
            here = answer.whole() if decoder is PLAIN else None
            await self._pass_whole(answer, here or await self._reading.whole(answer, decoder))

    def _refusal(self, answer: Answer, data: bytes) -> CerberusError:
        lease = self._lease
        now = self._clock.now()
        error = refusal(answer.status, answer.headers, data, lease.model, lease.explain, now)
        if isinstance(error, KeptStatus) and not self._way.refusals_pass:
            # They are in the endpoint's words, not in the client's.
            error.body = None
            error.headers = ()
        return error

    async def _pass_whole(self, answer: Answer, data: bytes) -> None:
        try:
            out = self._way.whole(
                data,
                self._facts,
                public_model=self._name,
                renamed=self._renamed,
                extra=self._figures,
            )
        except body.NotJson:
            raise UpstreamFailed(
                f"{self._name} answered with something that is no JSON: {excerpt(data)}",
                hint="Is its `base_url` right? It should end in /v1.",
            ) from None
        if self._client.started:
            raise UpstreamFailed(f"{self._name} was asked for a stream and gave a whole answer")
        await self._client.whole(answer.status, out)

    async def _pass_stream(self, answer: Answer, decoder: Decoder) -> None:
        stream = self._way.stream(
            self._facts,
            public_model=self._name,
            renamed=self._renamed,
            now=self._clock.monotonic,
        )
        client, read, keepalive_s = self._client, answer.read, self._options.keepalive_s
        client.voice = stream if isinstance(stream, Voice) else None
        quiet_since = self._clock.monotonic()
        if decoder is PLAIN:
            answer.pass_to(self._straight_through(stream))
        while not stream.done:
            wait = keepalive_s if client.started else client.hold_left()
            since = max(quiet_since, self._facts.last_at or 0.0)
            left = self._silence_left(since)
            chunk = await read(min(wait, left))
            if chunk is None:
                # Pieces may have gone straight through meanwhile.
                if self._silence_left(max(since, self._facts.last_at or 0.0)) <= LEAST_S:
                    raise self._reading.silent()
                if left >= wait:  # else the limit was looked at, too early: timers are coarse
                    await client.sign(KEEP_ALIVE)
                continue
            if not chunk:
                break
            quiet_since = self._clock.monotonic()
            try:
                out = stream.feed(decoder.feed(chunk))
            except UpstreamError as error:
                if stream.before_error:
                    await client.piece(stream.before_error)
                raise self._told(error.payload) from None
            if out:
                await client.piece(out)
        if not stream.finished:
            raise self._reading.cut_off()
        await client.piece(stream.tail(self._figures()), more=False)
        await answer.rest()

    def _straight_through(self, stream: AnswerStream) -> Callable[[bytes], bool]:
        """From the engine's socket to the client's without waking the task."""
        quick, passed, client, push = stream.quick, stream.passed, self._client, self._client.push

        def take(chunk: bytes) -> bool:
            out = quick(chunk) if client.answered else None
            if out is None or not push(out):
                return False
            passed()
            return True

        return take

    def _silence_left(self, since: float) -> float:
        """Seconds until a silence that began at `since` is too long."""
        limit = self._options.silence_s
        if not limit:
            return NO_LIMIT_S
        return max(LEAST_S, since + limit - self._clock.monotonic())

    @property
    def _reading(self) -> Reading:
        return Reading(name=self._name, silence_s=self._options.silence_s)

    def _told(self, payload: bytes) -> UpstreamFailed:
        return UpstreamFailed(f"{self._name}: {message_of(payload)}")

    async def _connection_error(self, lost: ConnectionLost) -> CerberusError:
        lease = self._lease
        if self._clients.closing:
            return Unavailable("Cerberus is stopping", code="stopping")
        if lease.model.managed:
            reason = await lease.lost_reason()
            if reason is not None:
                return EngineLost(
                    f"The engine of {lease.model.id} ended while it was answering: {reason}",
                    hint="The next request loads it again.",
                )
        if lost.before_answer:
            return UpstreamFailed(
                f"{lease.model.id} can't be reached: {lost}",
                hint=f"Does it run, and is the `base_url` of {lease.model.backend!r} right?",
            )
        return UpstreamFailed(
            f"{lease.model.id} broke off its answer: {lost}",
            hint="Its own log may say why. Asking again may help.",
        )
