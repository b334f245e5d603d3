"""One request from the client to the engine and back: the hot path.

The order of things: acquire the model, open the engine, hold the head of the
answer until the first event or for `hold_s`, then pass on whole events as they
come. Every path ends in one record and one release.
"""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from cerberus_core.engines import Lease, Manager, Waited
from cerberus_core.errors import BadRequest, CerberusError, EngineLost, Unavailable, UpstreamFailed
from cerberus_core.gpu import Ledger, Share, Use
from cerberus_core.platform import Clock
from cerberus_core.values import ModelInfo, Record

from . import body, sse
from .admission import Admission
from .answers import JSON_TYPE, error_body, error_event, error_value, status_of
from .assemble import Assembler
from .clients import Clients
from .decode import PLAIN, Decoder
from .holding import Holding
from .live import Live
from .options import Options
from .reading import NO_LIMIT_S, Reading
from .request import Parsed
from .sink import Header, Sink
from .stream import OpenAIStream, UpstreamError
from .upstream import Answer, ConnectionLost
from .upstream_errors import Refused, excerpt, message_of, refusal

CLIENT_GONE = 499
KEEP_ALIVE = b": keep-alive\n\n"
LEAST_S = 0.001
_NO_SHARE = Share()
_NO_WAIT = Waited()


class Relay:
    """Answers one request. Made anew for each."""

    def __init__(
        self,
        parsed: Parsed,
        live: Live,
        sink: Sink,
        *,
        manager: Manager,
        clients: Clients,
        options: Options,
        clock: Clock,
        energy: Ledger | None = None,
        session: str | None = None,
        admission: Admission | None = None,
    ) -> None:
        """`session`: the request is a turn of it. `admission`: of a gateway key."""
        self._parsed = parsed
        self._live = live
        self._facts = live.facts
        self._sink = sink
        self._manager = manager
        self._clients = clients
        self._options = options
        self._clock = clock
        self._energy = energy
        self.use: Use | None = None
        """Its share of the energy in the making; None where nothing is metered."""
        self._began = clock.monotonic()
        self._lease: Lease | None = None
        self._upstream: Answer | None = None
        self._waited = _NO_WAIT
        self._session = session
        self._admission = admission
        self._started = False
        self.status: int | None = None
        self.error: str | None = None

    async def run(self) -> None:
        """Answer, whatever happens. Raises only cancellation (the client left, or shutdown)."""
        try:
            await self._answer()
        except CerberusError as error:
            await self._fail(error)
        except sse.TooLong:
            await self._fail(UpstreamFailed("The endpoint sent an event without an end"))

    async def cut_off(self, error: CerberusError) -> None:
        """End an answer from outside, in words."""
        await self._fail(error)

    def record(self) -> Record:
        """What is known of the request now."""
        facts, live, lease, waited = self._facts, self._live, self._lease, self._waited
        return Record(
            id=live.id,
            time=live.time,
            model=lease.model.id if lease else live.model,
            backend=lease.model.backend if lease else None,
            client=live.client,
            key_id=live.key_id,
            session_id=self._session,
            local=lease.endpoint.local if lease else None,
            path=self._parsed.path,
            stream=self._parsed.stream,
            prompt_tokens=facts.prompt_tokens,
            cached_tokens=facts.cached_tokens,
            completion_tokens=facts.tokens,
            tokens_counted=facts.counted,
            queue_ms=_ms(waited.queue_s) or None,
            load_ms=_ms(waited.load_s),
            evicted=waited.evicted,
            ttft_ms=self._ttft_ms(),
            duration_ms=_ms(self._clock.monotonic() - self._began),
            tok_per_sec=facts.tok_per_sec(),
            status=self.status,
            error=self.error,
        )

    # The steps.

    async def _answer(self) -> None:
        if self._admission is not None:
            await self._admission.enter(self._parsed.model)
        try:
            # Kept on self at once: a cancellation right after must find it to release it.
            self._lease = self._manager.try_acquire(
                self._parsed.model, in_session=self._session is not None
            )
            if self._lease is None:
                await self._patiently(self._acquire(), self._loading_comment)
            lease = self._lease
            assert lease is not None
            self._live.phase = "prefill"
            self._live.model = lease.model.id
            self._check_capability(lease)
            if self._energy is not None and lease.endpoint.local:
                self.use = self._energy.begin(self._facts, lease.cards)
            try:
                if self._parsed.stream:
                    await self._patiently(self._open(lease), lambda: KEEP_ALIVE)
                else:
                    await self._open(lease)
                assert self._upstream is not None
                await self._pass_on(self._upstream)
            except ConnectionLost as lost:
                raise await self._connection_error(lease, lost) from None
        finally:
            if self._upstream is not None:
                self._upstream.close()
            if self._lease is not None:
                self._lease.release()

    async def _acquire(self) -> None:
        self._lease = await self._manager.acquire(
            self._parsed.model, in_session=self._session is not None
        )
        self._waited = self._lease.waited or _NO_WAIT

    async def _open(self, lease: Lease) -> None:
        stream = self._stream_upstream
        client, target = self._clients.way_to(lease.endpoint, self._parsed.path, stream=stream)
        body = self._parsed.body_for(lease.endpoint.model, stream=stream)
        try:
            self._upstream = await client.open(target, body, self._options.silence_s or None)
        except TimeoutError:
            raise self._reading.silent() from None

    async def _pass_on(self, answer: Answer) -> None:
        encoding = answer.headers.get("content-encoding")
        decoder = Decoder(encoding) if encoding else PLAIN
        if not 200 <= answer.status < 300:
            data = await self._reading.whole(answer, decoder)
            assert self._lease is not None
            lease = self._lease
            passed, error = refusal(answer.status, answer.headers, data, lease.model, lease.explain)
            if passed is not None and not self._started:
                self.status = answer.status
                self.error = error.message
                await self._sink.whole(
                    answer.status, self._reply_headers(answer, JSON_TYPE), passed
                )
                return
            raise error
        streams = answer.headers.get("content-type", "").partition(";")[0] == "text/event-stream"
        if streams and self._parsed.stream:
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

    async def _pass_whole(self, answer: Answer, data: bytes) -> None:
        try:
            fields = body.read(data, self._facts)
        except body.NotJson:
            raise UpstreamFailed(
                f"{self._name} answered with something that is no JSON: {excerpt(data)}",
                hint="Is its `base_url` right? It should end in /v1.",
            ) from None
        error = fields.get("error")
        if error is not None and bytes(error) != b"null" and "choices" not in fields:
            raise self._told(bytes(error))
        out = body.finish(fields, public_model=self._public_model, extra=self._cerberus())
        if self._started:
            raise UpstreamFailed(f"{self._name} was asked for a stream and gave a whole answer")
        self.status = answer.status
        await self._sink.whole(answer.status, self._reply_headers(answer, JSON_TYPE), out)

    async def _pass_stream(self, answer: Answer, decoder: Decoder) -> None:
        stream = OpenAIStream(
            self._facts,
            public_model=self._public_model,
            wants_usage=self._parsed.wants_usage,
            several=self._parsed.several,
            now=self._clock.monotonic,
        )
        read, keepalive_s = answer.read, self._options.keepalive_s
        quiet_since = self._clock.monotonic()
        if decoder is PLAIN:
            answer.pass_to(self._straight_through(stream))
        while not stream.done:
            wait = keepalive_s if self._started else self._hold_left()
            since = max(quiet_since, self._facts.last_at or 0.0)
            chunk = await read(min(wait, self._silence_left(since)))
            if chunk is None:
                # Pieces may have gone straight through meanwhile.
                if self._silence_left(max(since, self._facts.last_at or 0.0)) <= LEAST_S:
                    raise self._reading.silent()
                await self._start_stream()
                await self._sink.piece(KEEP_ALIVE, True)
                continue
            if not chunk:
                break
            quiet_since = self._clock.monotonic()
            try:
                out = stream.feed(decoder.feed(chunk))
            except UpstreamError as error:
                if stream.before_error:
                    await self._emit(stream.before_error)
                raise self._told(error.payload) from None
            if out:
                await self._emit(out)
        if not stream.finished:
            raise self._reading.cut_off()
        await self._emit(stream.tail(self._cerberus()), more=False)
        await answer.rest()

    def _straight_through(self, stream: OpenAIStream) -> Callable[[bytes], bool]:
        """From the engine's socket to the client's without waking the task."""
        quick, passed, push = stream.quick, stream.passed, self._sink.push

        def take(chunk: bytes) -> bool:
            out = quick(chunk) if self._started else None
            if out is None or not push(out):
                return False
            passed()
            return True

        return take

    # Waiting.

    async def _patiently(self, work: Awaitable[None], comment: Callable[[], bytes]) -> None:
        """Wait for `work`; a stream's client gets its head after `hold_s`, then comments."""
        if not self._parsed.stream:
            await work
            return
        async with Holding(self._hold_left(), partial(self._comment_forever, comment)):
            await work

    def _hold_left(self) -> float:
        return max(LEAST_S, self._began + self._options.hold_s - self._clock.monotonic())

    def _loading_comment(self) -> bytes:
        return _comment(self._manager.peek(self._parsed.model))

    async def _comment_forever(self, comment: Callable[[], bytes]) -> None:
        while True:
            await self._emit(comment())
            await self._clock.sleep(self._options.keepalive_s)

    def _silence_left(self, since: float) -> float:
        """Seconds until a silence that began at `since` is too long."""
        limit = self._options.silence_s
        if not limit:
            return NO_LIMIT_S
        return max(LEAST_S, since + limit - self._clock.monotonic())

    # Sending.

    async def _start_stream(self) -> None:
        if not self._started:
            self._started = True
            self.status = 200
            headers: list[Header] = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-cache"),
                (b"x-accel-buffering", b"no"),
                (b"x-request-id", self._live.id.encode()),
            ]
            await self._sink.start(200, headers)

    async def _emit(self, data: bytes, *, more: bool = True) -> None:
        if not self._started:
            await self._start_stream()
        await self._sink.piece(data, more)

    async def _fail(self, error: CerberusError) -> None:
        self.error = error.message
        if self._started:
            value = error_value(error, request_id=self._live.id)
            await self._emit(error_event(value), more=False)
            return
        self.status = status_of(error)
        headers: list[Header] = [JSON_TYPE, (b"x-request-id", self._live.id.encode())]
        if error.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % error.retry_after_s))
        if isinstance(error, Refused) and error.retry_after is not None:
            headers.append((b"retry-after", error.retry_after.encode("latin-1", "replace")))
        await self._sink.whole(self.status, headers, error_body(error))

    # Small things.

    @property
    def _reading(self) -> Reading:
        return Reading(name=self._name, silence_s=self._options.silence_s)

    @property
    def _name(self) -> str:
        return self._lease.model.id if self._lease else self._live.model

    @property
    def _stream_upstream(self) -> bool:
        assert self._lease is not None
        can_stream = self._parsed.path != "/v1/embeddings"
        return self._parsed.stream or (self._lease.endpoint.stream_to_cancel and can_stream)

    @property
    def _public_model(self) -> str | None:
        assert self._lease is not None
        public = self._lease.model.id
        return None if self._lease.endpoint.model == public else public

    def _cerberus(self) -> dict[str, Any]:
        """What stands in `usage.cerberus`: the figures so far."""
        facts = self._facts
        share = _NO_SHARE if self.use is None else self.use.so_far()
        return {
            "request_id": self._live.id,
            "queue_ms": _ms(self._waited.queue_s) or None,
            "load_ms": _ms(self._waited.load_s),
            "evicted": list(self._waited.evicted),
            "ttft_ms": self._ttft_ms(),
            "duration_ms": _ms(self._clock.monotonic() - self._began),
            "tok_per_sec": facts.tok_per_sec(),
            "energy_j": share.energy_j,
            "energy_gpu_j": share.gpu_j,
            "energy_cpu_j": share.cpu_j,
            "energy": share.mark,
            "tok_per_j": share.tok_per_j(facts.tokens),
        }

    def _ttft_ms(self) -> int | None:
        first = self._facts.first_at
        return None if first is None else _ms(first - self._began)

    def _reply_headers(self, answer: Answer, *headers: Header) -> list[Header]:
        out = [*headers, (b"x-request-id", self._live.id.encode())]
        retry = answer.headers.get("retry-after")
        if retry is not None:
            out.append((b"retry-after", retry.encode("latin-1", "replace")))
        return out

    def _check_capability(self, lease: Lease) -> None:
        if self._parsed.path == "/v1/embeddings" and "embed" not in lease.model.capabilities:
            raise BadRequest(
                f"{lease.model.id} makes no embeddings",
                hint="Choose a model whose capabilities hold `embed`: `cerberus models ls`.",
            )

    def _told(self, payload: bytes) -> UpstreamFailed:
        return UpstreamFailed(f"{self._name}: {message_of(payload)}")

    async def _connection_error(self, lease: Lease, lost: ConnectionLost) -> CerberusError:
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


def _comment(model: ModelInfo | None) -> bytes:
    """What a stream's client may be told while it waits for a model."""
    if model is None or model.state != "loading":
        return b": waiting\n\n"
    if model.waits_for:
        names = "".join(c if c.isprintable() else "?" for c in ", ".join(model.waits_for))
        return f": waiting for {names}\n\n".encode()
    words = [f"{model.progress:.0%}"] if model.progress is not None else []
    if model.eta_s:
        words.append(f"about {math.ceil(model.eta_s)} s left")
    return b": loading %s\n\n" % ", ".join(words).encode() if words else b": loading\n\n"


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
