"""The daemon's HTTP API, for commands. Standard library alone: it must import fast."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cerberus_core.config import quick
from cerberus_core.errors import (
    AccessDenied,
    BadRequest,
    CerberusError,
    ConfigError,
    DaemonUnreachable,
    ModelNotFound,
    NotFound,
    Unavailable,
)
from cerberus_core.platform.locks import FileLock
from cerberus_core.platform.paths import Folders, folders

if TYPE_CHECKING:
    import http.client

START = "Start it with `cerberus serve` (or scripts/serve in a checkout)."

LIMIT_S = 30.0
"""Seconds of silence before the daemon is given up."""

_KINDS: dict[int, type[CerberusError]] = {
    400: BadRequest,
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    502: Unavailable,
    503: Unavailable,
}
_CODES: dict[str, type[CerberusError]] = {
    "config_error": ConfigError,
    "model_not_found": ModelNotFound,
}


class DaemonClient:
    """One connection per call. Errors come back as the exceptions they were."""

    def __init__(self, where: Folders | None = None) -> None:
        where = where or folders()
        if not FileLock(where.daemon_lock).is_held():
            # Nothing is sent to whoever listens at its old address now.
            raise DaemonUnreachable(f"No daemon runs on {where.data}", hint=START)
        found = quick.read(where)
        self.url = found.url
        self._where = where
        self._token = found.token

    def get(self, path: str) -> Any:
        body = self._light_get(path)
        return self._json("GET", path) if body is None else json.loads(body)

    def post(self, path: str, body: Any = None, *, timeout: float | None = LIMIT_S) -> Any:
        return self._json("POST", path, body, timeout)

    def patch(self, path: str, body: Any) -> Any:
        return self._json("PATCH", path, body)

    def delete(self, path: str) -> Any:
        return self._json("DELETE", path)

    def lines(self, method: str, path: str, body: Any = None) -> Iterator[bytes]:
        """The lines of a streamed answer, without their ends."""
        connection, answer = self._open(method, path, body, None)
        try:
            while line := answer.readline():
                yield line.rstrip(b"\r\n")
        except (OSError, _broken_http()) as error:
            raise DaemonUnreachable(f"The daemon broke off its answer: {error}") from None
        finally:
            connection.close()

    def _light_get(self, path: str) -> bytes | None:
        """The body of a plain 200 answer; None for all else, which the full client asks anew.

        `http.client` takes longer to import (email, ssl) than `cerberus status` may run.
        """
        import socket

        host, _, port = self.url.removeprefix("http://").rpartition(":")
        request = (
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
            f"Authorization: Bearer {self._token}\r\nUser-Agent: cerberus-cli\r\n\r\n"
        )
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=LIMIT_S) as line:
                line.sendall(request.encode("ascii"))
                answer = b"".join(iter(lambda: line.recv(1 << 16), b""))
        except TimeoutError:
            raise self._silent() from None
        except (OSError, ValueError):
            return None
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *headers = head.lower().split(b"\r\n")
        whole = b"content-length: %d" % len(body) in headers
        return body if whole and first.startswith(b"http/1.1 200 ") else None

    def _silent(self) -> DaemonUnreachable:
        return DaemonUnreachable(
            f"The daemon at {self.url} did not answer in time",
            hint="Is it stopped or very busy? What it printed where it was started may tell.",
        )

    def _json(
        self, method: str, path: str, body: Any = None, timeout: float | None = LIMIT_S
    ) -> Any:
        connection, answer = self._open(method, path, body, timeout)
        try:
            data = answer.read()
        except (OSError, _broken_http()) as error:
            raise DaemonUnreachable(f"The daemon broke off its answer: {error}") from None
        finally:
            connection.close()
        return json.loads(data) if data else None

    def _open(
        self, method: str, path: str, body: Any, timeout: float | None
    ) -> "tuple[http.client.HTTPConnection, http.client.HTTPResponse]":
        import http.client
        from urllib.parse import urlsplit

        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=timeout)
        headers = {"authorization": f"Bearer {self._token}", "user-agent": "cerberus-cli"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            if answer.status == 401:
                raise other_token(self._where)
            if answer.status >= 400:
                raise _error(answer.status, answer.read())
        except TimeoutError:
            connection.close()
            raise self._silent() from None
        except (OSError, _broken_http()):
            connection.close()
            raise DaemonUnreachable(
                f"No daemon answers at {self.url}",
                hint=START,
            ) from None
        except CerberusError:
            connection.close()
            raise
        return connection, answer


def other_token(where: Folders) -> AccessDenied:
    """The daemon of `where` lets in another token than the settings name here."""
    return AccessDenied(
        f"The daemon runs with another token than {where.config_file} names",
        hint="Stop it and start it anew, or put the token back as server.token (or as "
        "CERBERUS_SERVER__TOKEN where it was started with that).",
    )


def _broken_http() -> type[Exception]:
    from http.client import HTTPException

    return HTTPException


def model_path(verb: str, name: str) -> str:
    """The path of a verb on a model; ids hold slashes and colons, and stay path tails."""
    from urllib.parse import quote

    return f"/api/models/{verb}/{quote(name, safe='/')}" if verb else f"/api/models/{quote(name)}"


def _error(status: int, data: bytes) -> CerberusError:
    try:
        value = json.loads(data)
    except ValueError:
        value = {}
    value = value.get("error", value) if isinstance(value, dict) else {}
    message = value.get("message") or value.get("title") or f"The daemon answered {status}"
    if value.get("detail"):
        message += f" ({value['detail']})"
    code = value.get("code")
    kind = _CODES.get(code or "") or _KINDS.get(status, CerberusError)
    return kind(message, hint=value.get("hint"), code=code)
