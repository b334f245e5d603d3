"""The `/v1` paths as one pure ASGI application.

It is mounted beside the admin API and dispatches by itself: a framework's
handlers cost as much again as the whole relay.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from cerberus_core.access import OWNER, Keys, Principal
from cerberus_core.engines import Manager
from cerberus_core.errors import BadRequest, CerberusError, NotFound, Unavailable
from cerberus_core.gpu import Ledger, Share, Use
from cerberus_core.platform import Clock
from cerberus_core.usage import Prompts, Store
from cerberus_core.values import ModelInfo, Record, new_id

from .admission import Admission, known_to, unknown_to_key
from .answers import JSON_TYPE, status_of
from .clients import Clients
from .count import PATH as COUNT
from .count import input_tokens
from .facts import Facts
from .live import Live, LiveRequests
from .media import FORMS, parse_form
from .options import Options
from .overheard import Overheard
from .relay import CLIENT_GONE, Relay
from .request import REQUIRED, Parsed, parse
from .sink import Header, Sink, sink_of
from .wires.dialect import dialect_of

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MODELS = "/v1/models"
PRINCIPAL = "cerberus.principal"
"""Where the guard leaves in the scope who asks."""
SESSION = b"x-cerberus-session"
AGENT_SESSIONS = frozenset({b"x-claude-code-session-id", b"session-id", b"x-session-id"})
"""Headers in which Claude Code, Codex and OpenCode name their sessions."""
_encode = msgspec.json.Encoder().encode


class _ClientLeft(Exception):
    """The client hung up before its request was whole."""


class _Who(NamedTuple):
    """What the headers say of the client."""

    agent: str | None
    session: str | None
    patience_s: float | None


class Gateway:
    """`await gateway(scope, receive, send)` for every path under `/v1`."""

    def __init__(
        self,
        manager: Manager,
        store: Store,
        *,
        publish: Callable[[str, Any], None],
        clock: Clock,
        options: Options,
        energy: Ledger | None = None,
        keys: Keys | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        """`energy` shares out what the answers of local models use; `keys` holds gateway keys
        to their limits, and knows prices; `prompts` keeps those of keys that ask for it.
        """
        self.requests = LiveRequests(publish, clock)
        self._manager = manager
        self._store = store
        self._clock = clock
        self._options = options
        self._energy = energy
        self._keys = keys
        self._prompts = prompts
        self._clients = Clients()
        started = clock.now()
        self._started_unix = int(started.timestamp())
        self._started_at = started.replace(microsecond=0)

    def retune(self, options: Options) -> None:
        """For requests that come from now on."""
        self._options = options

    async def aclose(self) -> None:
        """Hang up the engines' connections."""
        await self._clients.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application. `scope["raw_path"]` decides: model ids hold slashes and colons."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 4404})
            return
        path = scope["raw_path"].decode("latin-1").partition("?")[0]
        principal: Principal = scope[PRINCIPAL]
        try:
            if path in REQUIRED:
                _require(scope, "POST")
                await self._receive(path, scope, receive, send, principal)
            elif path == MODELS or path == MODELS + "/":
                _require(scope, "GET", "HEAD")
                await self._list(sink_of(scope, receive, send), principal)
            elif path.startswith(MODELS + "/"):
                _require(scope, "GET", "HEAD")
                name = unquote(path[len(MODELS) + 1 :])
                await self._one(name, sink_of(scope, receive, send), principal)
            else:
                raise NotFound(
                    f"There is no {unquote(path)}",
                    hint=f"Known are {', '.join(sorted([*REQUIRED, MODELS]))}.",
                )
        except _ClientLeft:
            return
        except _WrongMethod as error:
            headers = [JSON_TYPE, (b"allow", error.allowed.encode())]
            body = dialect_of(path).error_body(error)
            await sink_of(scope, receive, send).whole(405, headers, body)
        except CerberusError as error:
            body = dialect_of(path).error_body(error)
            await sink_of(scope, receive, send).whole(status_of(error), [JSON_TYPE], body)

    async def _receive(
        self, path: str, scope: Scope, receive: Receive, send: Send, principal: Principal
    ) -> None:
        sink = sink_of(scope, receive, send)
        try:
            body = await self._read_body(scope, receive)
        except _TooLarge as error:
            await sink.whole(413, [JSON_TYPE], dialect_of(path).error_body(error))
            return
        await self.answer(path, scope["headers"], body, sink, principal)

    async def answer(
        self, path: str, headers: Iterable[Header], body: bytes, sink: Sink, principal: Principal
    ) -> None:
        """Answer a POST to one of `REQUIRED` whose body is here. Raises only what is a bug."""
        who = _who(headers)
        try:
            parsed = parse_form(path, headers, body) if path in FORMS else parse(path, body)
        except BadRequest as error:
            await sink.whole(400, [JSON_TYPE], dialect_of(path).error_body(error))
            return
        if path == COUNT:
            await self._count(parsed, sink, principal)
            return
        facts = Facts()
        now = self._clock.now()
        live = Live(
            new_id(now.timestamp()),
            now,
            parsed.model,
            principal.name or who.agent,
            parsed.stream,
            facts,
            principal.key_id,
        )
        admission = None if principal is OWNER else self._admission_of(principal, parsed)
        overheard = Overheard(sink) if path not in FORMS and self._is_kept(principal) else None
        relay = self._make_relay(parsed, live, overheard or sink, who, admission)
        client = relay.client
        self.requests.begin(live)
        gone = False
        task = asyncio.current_task()
        assert task is not None

        def hung_up() -> None:
            nonlocal gone
            gone = True
            task.cancel()

        sink.when_gone(hung_up)
        try:
            await relay.run()
        except asyncio.CancelledError:
            task.uncancel()
            if gone:
                client.error = client.error or "the client left before the answer was complete"
                client.status = CLIENT_GONE
            else:  # the server cancels what runs when its grace for a stop is over
                await client.fail(Unavailable("Cerberus is stopping", code="stopping"))
        except BaseException as error:
            client.error = f"{type(error).__name__}: {error}"
            client.status = client.status or 500
            raise
        finally:
            sink.forget()
            if overheard is not None and self._prompts is not None:
                self._prompts.keep(
                    live.id,
                    principal.key_id or "",
                    path,
                    request=bytes(body),
                    answer=bytes(overheard.data),
                    cut=overheard.too_long,
                )
            record = self._priced(relay.record())
            if admission is not None:
                admission.end(record, metered=relay.use is not None)
            if relay.use is None:
                self._store.add(record)
                self.requests.end(live, record)
            else:
                self._end_metered(relay.use, live, record, admission)

    def _end_metered(
        self, use: Use, live: Live, record: Record, admission: Admission | None
    ) -> None:
        """The record follows when the meters were read once more; the client has its answer."""
        self.requests.leave(live)

        def settled(share: Share) -> None:
            whole = msgspec.structs.replace(
                record,
                energy_j=share.energy_j,
                energy_gpu_j=share.gpu_j,
                energy_cpu_j=share.cpu_j,
                energy=share.mark,
                tok_per_j=share.tok_per_j(record.completion_tokens),
            )
            if admission is not None:
                admission.metered(share.energy_j)
            self._store.add(whole)
            self.requests.end(live, whole)

        use.end(record.completion_tokens, settled)

    async def _count(self, parsed: Parsed, sink: Sink, principal: Principal) -> None:
        dialect = dialect_of(COUNT)
        try:
            allowed = self._allowed(principal)
            model = await known_to(principal, self._manager, parsed.model)
            if not allowed(model):
                raise unknown_to_key(parsed.model)
            tokens = await input_tokens(parsed, model, self._manager, self._clients)
            told = {"input_tokens": tokens}
        except CerberusError as error:
            await sink.whole(status_of(error), [JSON_TYPE], dialect.error_body(error))
            return
        await sink.whole(200, [JSON_TYPE], _encode(told))

    def _is_kept(self, principal: Principal) -> bool:
        if principal is OWNER or self._keys is None:
            return False
        return self._keys.stores_prompts(principal)

    def _admission_of(self, principal: Principal, parsed: Parsed) -> Admission:
        assert self._keys is not None
        return Admission(self._keys, principal, self._manager, parsed, self._clock)

    def _priced(self, record: Record) -> Record:
        keys = self._keys
        if keys is None or not keys.prices or record.local is not False:
            return record
        cost = keys.prices.cost(
            record.model, record.prompt_tokens, record.completion_tokens, record.cached_tokens
        )
        return record if cost is None else msgspec.structs.replace(record, cost=cost)

    def _make_relay(
        self, parsed: Parsed, live: Live, sink: Sink, who: _Who, admission: Admission | None
    ) -> Relay:
        return Relay(
            parsed,
            live,
            sink,
            manager=self._manager,
            clients=self._clients,
            options=self._options,
            clock=self._clock,
            energy=self._energy,
            session=who.session,
            patience_s=who.patience_s,
            admission=admission,
        )

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._options.body_limit
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientLeft
            piece = message.get("body", b"")
            size += len(piece)
            if size <= limit:
                pieces.append(piece)
            else:
                pieces.clear()  # read on, so that the client hears the answer, but keep nothing
            if not message.get("more_body", False) or size > 8 * limit:
                break
        if size > limit:
            raise _TooLarge(
                f"The request is larger than {limit >> 20} MiB",
                hint="The limit is `gateway.body_limit_mib` in config.toml.",
                code="request_too_large",
            )
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _list(self, sink: Sink, principal: Principal) -> None:
        models = await self._manager.models()
        allowed = self._allowed(principal)
        rows = [self._row(model) for model in models if model.problem is None and allowed(model)]
        # OpenAI's list and Anthropic's in one: there is only one page.
        told = {"object": "list", "data": rows, "has_more": False}
        await sink.whole(200, [JSON_TYPE], _encode(told))

    async def _one(self, name: str, sink: Sink, principal: Principal) -> None:
        allowed = self._allowed(principal)
        model = await known_to(principal, self._manager, name)
        if not allowed(model):
            raise unknown_to_key(name)
        await sink.whole(200, [JSON_TYPE], _encode(self._row(model)))

    def _allowed(self, principal: Principal) -> Callable[[ModelInfo], bool]:
        """Which models are for who asks."""
        if principal is OWNER:
            return lambda _: True
        assert self._keys is not None
        return self._keys.account(principal).allows

    def _row(self, model: ModelInfo) -> dict[str, Any]:
        return {
            "id": model.id,
            "object": "model",
            # Clients insist on a number; the start of the daemon is when we first knew it.
            "created": self._started_unix,
            "owned_by": model.backend,
            "type": "model",
            "display_name": model.id,
            "created_at": self._started_at,
            "context_length": model.loaded_ctx or model.ctx,
            "capabilities": sorted(model.capabilities),
            "loaded": model.loaded,
        }


class _TooLarge(BadRequest):
    pass


class _WrongMethod(BadRequest):
    code = "method_not_allowed"
    allowed = ""


def _require(scope: Scope, *methods: str) -> None:
    if scope["method"] not in methods:
        error = _WrongMethod(f"{scope['method']} is not possible here, {methods[0]} is")
        error.allowed = ", ".join(methods)
        raise error


def _who(headers: Iterable[Header]) -> _Who:
    agent = session = own_session = patience_s = None
    for name, value in headers:
        if name == b"user-agent":
            agent = value.decode("latin-1")[:120]
        elif name == SESSION:
            session = value.decode("latin-1")[:64]
        elif name in AGENT_SESSIONS:
            own_session = value.decode("latin-1")[:64]
        elif name == b"x-cerberus-patience":
            patience_s = _seconds(value)
    return _Who(agent, session or own_session, patience_s)


def _seconds(value: bytes) -> float | None:
    """Of a header; None for what is no span of time."""
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None
