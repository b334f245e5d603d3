"""One request from the client to an engine and back.

The order of things: acquire the model, open its engine, hold the head of the
answer until the first event or for `hold_s`, pass on whole events as they
come. A model that can't answer gives way to its fallbacks as long as the
client has heard nothing of an answer. Every path ends in one record and one
release of each lease.
"""

import asyncio
from functools import partial
from typing import Any

from cerberus_core.engines import Lease, Manager, Waited
from cerberus_core.errors import (
    BadRequest,
    CerberusError,
    Forbidden,
    LimitReached,
    UpstreamFailed,
)
from cerberus_core.gpu import Ledger, Share, Use
from cerberus_core.platform import Clock
from cerberus_core.values import Record, Tried

from . import sse
from .admission import Admission
from .attempt import Attempt
from .client import LEAST_S, Client
from .clients import Clients
from .live import Live
from .media_attempt import MediaAttempt
from .options import Options
from .request import Parsed
from .route import TooSlow, gives_way, too_slow, waits
from .sink import Sink
from .ways import Asker, Media, way_of
from .wires.dialect import dialect_of

CLIENT_GONE = 499
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
        patience_s: float | None = None,
        admission: Admission | None = None,
    ) -> None:
        """`session`: the request is a turn of it. `patience_s`: so long the client waits for a
        local model before another may answer; None: what the settings say. `admission`: of a
        gateway key.
        """
        self._parsed = parsed
        self._live = live
        self._facts = live.facts
        self.client = Client(sink, dialect_of(parsed.path), live, options, clock)
        self._manager = manager
        self._clients = clients
        self._options = options
        self._clock = clock
        self._energy = energy
        self.use: Use | None = None
        """Its share of the energy in the making; None where nothing is metered."""
        self._began = clock.monotonic()
        self._lease: Lease | None = None
        self._waited = _NO_WAIT
        self._session = session
        self._patience_s = patience_s
        self._admission = admission
        self._tried: list[Tried] = []

    async def run(self) -> None:
        """Answer, whatever happens. Raises only cancellation (the client left, or shutdown)."""
        try:
            await self._answer()
        except CerberusError as error:
            await self.client.fail(error, tried=bool(self._tried))

    def record(self) -> Record:
        """What is known of the request now."""
        facts, live, lease, waited = self._facts, self._live, self._lease, self._waited
        if lease is None:
            model, backend, local = live.model, None, None
        else:
            model, backend, local = lease.model.id, lease.model.backend, lease.endpoint.local
        asked = self._parsed.model
        return Record(
            id=live.id,
            time=live.time,
            model=model,
            asked=None if lease is None or model == asked else asked,
            backend=backend,
            client=live.client,
            key_id=live.key_id,
            session_id=self._session,
            local=local,
            path=self._parsed.path,
            stream=self._parsed.stream,
            prompt_tokens=facts.prompt_tokens,
            cached_tokens=facts.cached_tokens,
            completion_tokens=facts.tokens,
            tokens_counted=facts.counted,
            queue_ms=_ms(waited.queue_s) or None,
            load_ms=_ms(waited.load_s),
            evicted=waited.evicted,
            tried=tuple(self._tried),
            ttft_ms=self._ttft_ms(),
            duration_ms=_ms(self._clock.monotonic() - self._began),
            tok_per_sec=facts.tok_per_sec(),
            prefill_tok_per_sec=facts.prefill_tok_per_sec,
            status=self.client.status,
            error=self.client.error,
        )

    async def _answer(self) -> None:
        name = self._parsed.model
        others: list[str] | None = None
        slow: str | None = None
        told: CerberusError | None = None
        while True:
            try:
                await self._try(name, others)
                return
            except CerberusError as error:
                # A key may not use every fallback: one that it may comes later, and that it
                # may not is no answer to who asked for another model.
                barred = bool(self._tried) and isinstance(error, (Forbidden, LimitReached))
                if told is None or not barred:
                    told = error
                if others is None:
                    others = list(self._manager.fallbacks(name))
                if isinstance(error, TooSlow) and slow is None:
                    slow = name
                if self.client.answered or not (barred or gives_way(error)):
                    raise
                if not others and slow is None:
                    raise told from None
                self._give_up(name, error)
                if others:
                    name = others.pop(0)
                else:  # nobody else could: late is better than never
                    assert slow is not None
                    name, slow = slow, None

    def _give_up(self, name: str, error: CerberusError) -> None:
        model = self._lease.model.id if self._lease else name
        self._tried.append(Tried(model=model, why=error.message))
        self._lease = None
        if self.use is not None:
            self.use.end(None, lambda _: None)
            self.use = None

    async def _try(self, name: str, others: list[str] | None) -> None:
        parsed, manager, client = self._parsed, self._manager, self.client
        if self._admission is not None:
            await self._admission.enter(name)
        try:
            # Kept on self at once: a cancellation right after must find it to release it.
            self._lease = manager.try_acquire(name, in_session=self._session is not None)
            if self._lease is None:
                await client.patiently(
                    self._acquire(name, others), lambda: waits(manager.peek(name))
                )
            lease = self._lease
            assert lease is not None
            self._live.phase = "prefill"
            self._live.model = lease.model.id
            _check_capability(parsed.path, lease)
            way = way_of(
                parsed,
                lease.endpoint,
                partial(self._asker, lease),
                writes_calls=lease.text_calls,
            )
            if self._energy is not None and lease.endpoint.local:
                self.use = self._energy.begin(self._facts, lease.cards)
            kind = MediaAttempt if isinstance(way, Media) else Attempt
            attempt = kind(
                lease,
                way,
                client,
                self._facts,
                streams=parsed.stream,
                figures=self._figures,
                clients=self._clients,
                options=self._options,
                clock=self._clock,
            )
            try:
                await attempt.run()
            finally:
                attempt.close()
        except sse.TooLong:
            raise UpstreamFailed("The endpoint sent an event without an end") from None
        finally:
            if self._lease is not None:
                self._lease.release()

    async def _acquire(self, name: str, others: list[str] | None) -> None:
        manager = self._manager
        more = manager.fallbacks(name) if others is None else others
        patience_s = manager.patience_s(name) if self._patience_s is None else self._patience_s
        limit_s: float | None = None
        if more and patience_s is not None:
            spent = self._clock.monotonic() - self._began
            limit_s = max(LEAST_S, patience_s - spent)
        in_session = self._session is not None
        try:
            async with asyncio.timeout(limit_s):
                if limit_s is not None:
                    model = await manager.load(name, wait=False)
                    reason = too_slow(model.id, manager.delay(model.id), limit_s)
                    if reason is not None:
                        raise TooSlow(reason)
                self._lease = await manager.acquire(name, in_session=in_session)
        except TimeoutError:
            raise TooSlow(f"{name} was not ready within {patience_s:g} s") from None
        self._waited = self._lease.waited or _NO_WAIT

    def _asker(self, lease: Lease) -> Asker:
        live = self._live
        return Asker(
            request_id=live.id,
            model=lease.model.id,
            unix=int(live.time.timestamp()),
        )

    def _figures(self) -> dict[str, Any]:
        """What stands in `usage.cerberus`: the figures so far."""
        facts, waited, share = self._facts, self._waited, _NO_SHARE
        energy_j = tok_per_j = None
        if self.use is not None:
            share = self.use.so_far()
            energy_j, tok_per_j = share.energy_j, share.tok_per_j(facts.tokens)
        return {
            "request_id": self._live.id,
            "queue_ms": _ms(waited.queue_s) or None,
            "load_ms": _ms(waited.load_s),
            "evicted": waited.evicted,
            "tried": self._tried,
            "ttft_ms": self._ttft_ms(),
            "duration_ms": _ms(self._clock.monotonic() - self._began),
            "tok_per_sec": facts.tok_per_sec(),
            "prefill_tok_per_sec": facts.prefill_tok_per_sec,
            "energy_j": energy_j,
            "energy_gpu_j": share.gpu_j,
            "energy_cpu_j": share.cpu_j,
            "energy": share.mark,
            "tok_per_j": tok_per_j,
        }

    def _ttft_ms(self) -> int | None:
        first = self._facts.first_at
        return None if first is None else _ms(first - self._began)


def _check_capability(path: str, lease: Lease) -> None:
    if path == "/v1/embeddings" and "embed" not in lease.model.capabilities:
        raise BadRequest(
            f"{lease.model.id} makes no embeddings",
            hint="Choose a model whose capabilities hold `embed`: `cerberus models ls`.",
        )


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
