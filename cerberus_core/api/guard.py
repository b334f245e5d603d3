"""The guard before every route: Host, Origin, then token, key or cookie.

It wraps the whole application, HTTP and WebSocket alike, so a new route is
protected before it is written. `PUBLIC` is the list of what needs no token.
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from http.cookies import CookieError, SimpleCookie

import attrs

from cerberus_core.access import (
    COOKIE_NAME,
    OWNER,
    Hosts,
    Keys,
    Principal,
    bearer,
    check_cookie,
    is_key_token,
    same,
)
from cerberus_core.errors import AccessDenied, Forbidden
from cerberus_core.gateway import Gateway
from cerberus_core.gateway.app import PRINCIPAL
from cerberus_core.gateway.wires.dialect import dialect_of
from cerberus_core.platform import Clock

from .cors import Cors, named, preflight
from .problems import MEDIA_TYPE, problem_bytes
from .wire import Header, Receive, Scope, Send, safe

App = Callable[[Scope, Receive, Send], Awaitable[None]]

PUBLIC = frozenset({"/healthz", "/api/login"})
"""Beside the files of the UI's shell, which the web room lists."""

OTHER_TOKEN = (
    "The token is wrong: the daemon runs with the one from its start, and its settings name "
    "another since; start it anew"
)

NOBODY = Cors()
MAX_KNOWN = 256
"""Pairs of Host and Origin whose verdict is kept."""


@attrs.frozen
class _Refusal:
    status: int
    title: str
    code: str
    hint: str | None
    key: bytes | None = None
    """The gateway key's token that was not good."""


class Guard:
    """`await guard(scope, receive, send)`."""

    def __init__(
        self,
        app: App,
        *,
        hosts: Hosts,
        token: str,
        clock: Clock,
        shell: Container[str],
        gateway: Gateway | None = None,
        keys: Keys | None = None,
        cors: Cors = NOBODY,
        token_waits: Callable[[], bool] = lambda: False,
    ) -> None:
        """`gateway`: for a server that goes straight to it, having asked `admits`.

        `token_waits`: whether the settings name another token, for after a restart.
        """
        self.gateway = gateway
        self._app = app
        self._hosts = hosts
        self._cors = cors
        self._token = token
        self._keys = keys
        self._clock = clock
        self._shell = shell
        self._token_waits = token_waits
        # Verdicts by header value: a client sends the same ones with each request.
        self._known: dict[tuple[str | None, str | None], _Refusal | None] = {}

    def retune(self, hosts: Hosts, cors: Cors) -> None:
        """From the next request on."""
        self._hosts = hosts
        self._cors = cors
        self._known.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        origin = self._cors.origin_of(scope)
        if origin is not None:
            # The server's own way to write an answer would leave our headers out.
            scope, send = {**scope, "extensions": {}}, named(send, origin)
        verdict = self._judge(scope["type"], scope.get("method"), scope["path"], scope["headers"])
        if isinstance(verdict, _Refusal):
            if verdict.key is not None and self._keys is not None:
                self._keys.turned_away(verdict.key, verdict.code)
            await _refuse(scope, send, verdict)
            return
        if origin is not None and scope["method"] == "OPTIONS":
            await preflight(scope, send)
            return
        if verdict is not None:
            scope[PRINCIPAL] = verdict
        await self._app(scope, receive, send)

    def admits(self, path: str, headers: Sequence[Header]) -> Principal | None:
        """Who asks, if an HTTP POST to `path` may pass, and its answer needs nothing more."""
        if self._cors and any(name == b"origin" for name, _ in headers):
            return None
        verdict = self._judge("http", "POST", path, headers)
        return verdict if isinstance(verdict, Principal) else None

    def _judge(
        self, kind: str, method: str | None, path: str, headers: Iterable[Header]
    ) -> Principal | _Refusal | None:
        """Who may pass, or why not; None: anybody may."""
        host = origin = authorization = cookie = api_key = None
        for name, value in headers:
            # Two of one kind are joined, and so are nobody's: a proxy before us
            # might go by another one than we do.
            if name == b"host":
                host = _joined(host, value)
            elif name == b"origin":
                origin = _joined(origin, value)
            elif name == b"authorization":
                authorization = value
            elif name == b"cookie":
                cookie = value.decode("latin-1")
            elif name == b"x-api-key":
                api_key = value
        listed = self._cors.lets_in(origin, path)
        key = (host, None if listed else origin)
        if key in self._known:
            refusal = self._known[key]
        else:
            refusal = self._judge_names(*key)
            if len(self._known) < MAX_KNOWN:
                self._known[key] = refusal
        if refusal is not None:
            return refusal
        if path in PUBLIC or (path in self._shell and kind == "http"):
            return None
        if listed and method == "OPTIONS":
            return None
        sent = b"" if authorization is None else bearer(authorization)
        if sent and same(sent, self._token):
            return OWNER
        refusal = None
        if path.startswith("/v1/"):
            # What Anthropic's clients send.
            if api_key is not None and same(api_key, self._token):
                return OWNER
            for token in (sent, api_key):
                if token and is_key_token(token) and self._keys is not None:
                    try:
                        return self._keys.admit(token)
                    except AccessDenied as error:
                        refusal = _Refusal(401, error.message, error.code, error.hint, token)
        if cookie is not None and not listed and self._cookie_good(cookie):
            if origin is None and (kind == "websocket" or method not in ("GET", "HEAD")):
                return _Refusal(
                    403, "A request with a cookie needs an Origin header", "no_origin", None
                )
            return OWNER
        if is_key_token(sent) and refusal is None:
            title = "A gateway key opens /v1 alone: send the token that `cerberus token` prints"
            refusal = _Refusal(401, title, "unauthenticated", "For the browser run `cerberus url`.")
        return refusal or _Refusal(
            401,
            # With its remedy: many a client shows nothing but the message.
            "No valid token: send `Authorization: Bearer …` with what `cerberus token` prints"
            if authorization is None and not (api_key and path.startswith("/v1/"))
            else OTHER_TOKEN
            if self._token_waits()
            else "The token is wrong: `cerberus token` prints the right one",
            "unauthenticated",
            "For the browser run `cerberus url`.",
        )

    def _judge_names(self, host: str | None, origin: str | None) -> _Refusal | None:
        if not self._hosts.host_allowed(host):
            return _Refusal(
                403,
                f"This host name is not ours: {host!r}",
                "foreign_host",
                "Names that may be used stand in `server.allowed_hosts` in config.toml.",
            )
        if origin is not None and not self._hosts.origin_allowed(origin, host or ""):
            return _Refusal(
                403,
                f"Pages of {origin!r} may not call Cerberus",
                "foreign_origin",
                "Programs need no Origin header; pages that may use /v1 stand in "
                "`gateway.cors_origins` in config.toml.",
            )
        return None

    def _cookie_good(self, header: str) -> bool:
        try:
            morsel = SimpleCookie(header).get(COOKIE_NAME)
        except CookieError:
            return False
        now_s = self._clock.now().timestamp()
        return morsel is not None and check_cookie(morsel.value, self._token, now_s)


def _joined(before: str | None, value: bytes) -> str:
    text = value.decode("latin-1")
    return text if before is None else f"{before}, {text}"


async def _refuse(scope: Scope, send: Send, refusal: _Refusal) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4000 + refusal.status})
        return
    if scope["path"].startswith("/v1"):
        kind = Forbidden if refusal.status == 403 else AccessDenied
        error = kind(refusal.title, hint=refusal.hint, code=refusal.code)
        body = dialect_of(scope["path"]).error_body(error)
        media_type = "application/json"
    else:
        body = problem_bytes(refusal.status, refusal.title, code=refusal.code, hint=refusal.hint)
        media_type = MEDIA_TYPE
    headers = safe(
        [
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
    )
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
