"""The daemon's HTTP API, for commands. Standard library alone: it must import fast."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

from cerberus_core.config import quick
from cerberus_core.errors import (
    AccessDenied,
    BadRequest,
    CerberusError,
    DaemonUnreachable,
    ModelNotFound,
    NotFound,
    Unavailable,
)
from cerberus_core.platform.locks import FileLock
from cerberus_core.platform.paths import Folders, folders

START = "Start it with `cerberus serve` (or scripts/serve in a checkout)."

_KINDS: dict[int, type[CerberusError]] = {
    400: BadRequest,
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    503: Unavailable,
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
        self.pid = found.pid
        self._token = found.token

    def get(self, path: str) -> Any:
        return self._json("GET", path)

    def post(self, path: str, body: Any = None, *, timeout: float | None = 30.0) -> Any:
        return self._json("POST", path, body, timeout)

    def delete(self, path: str) -> Any:
        return self._json("DELETE", path)

    def lines(self, method: str, path: str, body: Any = None) -> Iterator[bytes]:
        """The lines of a streamed answer, without their ends."""
        connection, answer = self._open(method, path, body, None)
        try:
            while line := answer.readline():
                yield line.rstrip(b"\r\n")
        except (OSError, http.client.HTTPException) as error:
            raise DaemonUnreachable(f"The daemon broke off its answer: {error}") from None
        finally:
            connection.close()

    def _json(self, method: str, path: str, body: Any = None, timeout: float | None = 30.0) -> Any:
        connection, answer = self._open(method, path, body, timeout)
        try:
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise DaemonUnreachable(f"The daemon broke off its answer: {error}") from None
        finally:
            connection.close()
        return json.loads(data) if data else None

    def _open(
        self, method: str, path: str, body: Any, timeout: float | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=timeout)
        headers = {"authorization": f"Bearer {self._token}", "user-agent": "cerberus-cli"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise _error(answer.status, answer.read())
        except TimeoutError:
            connection.close()
            raise DaemonUnreachable(
                f"The daemon at {self.url} did not answer in time",
                hint="Is it stopped or very busy? Its log may tell.",
            ) from None
        except (OSError, http.client.HTTPException):
            connection.close()
            raise DaemonUnreachable(
                f"No daemon answers at {self.url}",
                hint=START,
            ) from None
        except CerberusError:
            connection.close()
            raise
        return connection, answer


def model_path(verb: str, name: str) -> str:
    """The path of a verb on a model; ids hold slashes and colons, and stay path tails."""
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
    kind = ModelNotFound if code == "model_not_found" else _KINDS.get(status, CerberusError)
    return kind(message, hint=value.get("hint"), code=code)
