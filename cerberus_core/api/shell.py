"""The UI's files, read once at start.

Only what was found then can be asked for, by its exact path: there is no path
to walk out of. Every answer carries the policy that forbids inline script.
"""

import gzip
import mimetypes
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs

Send = Callable[[dict[str, Any]], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_GZIP = re.compile(rb"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
_NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Cerberus</title>
<h1>Cerberus is running</h1><p>The page itself is not built in this checkout: run
<code>scripts/serve</code>, or <code>scripts/web build</code> and restart. The API and the
gateway work without it.</p></html>
"""


@attrs.frozen
class _File:
    body: bytes
    zipped: bytes | None
    headers: tuple[tuple[bytes, bytes], ...]


class Shell:
    """`path in shell` and `await shell.serve(...)`."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, _File] = {}
        self.built = (folder / "index.html").is_file()
        if not self.built:
            self._files["/"] = _file("index.html", _NOT_BUILT)
            return
        root = folder.resolve()
        for path in sorted(folder.rglob("*")):
            # A link that leads outside is no file of the page.
            if path.is_file() and path.resolve().is_relative_to(root):
                name = path.relative_to(folder).as_posix()
                self._files[f"/{name}"] = _file(name, path.read_bytes())
        self._files["/"] = self._files["/index.html"]

    def __contains__(self, path: object) -> bool:
        return path in self._files

    async def serve(self, scope: dict[str, Any], send: Send) -> None:
        """Answer GET or HEAD for a path that is in the shell."""
        file = self._files[scope["path"]]
        if scope["method"] not in ("GET", "HEAD"):
            await _send(send, 405, b"", [(b"allow", b"GET, HEAD")], head=False)
            return
        headers = list(file.headers)
        body = file.body
        if file.zipped is not None and _takes_gzip(scope):
            body = file.zipped
            headers.append((b"content-encoding", b"gzip"))
        await _send(send, 200, body, headers, head=scope["method"] == "HEAD")


def _file(name: str, body: bytes) -> _File:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if kind.startswith("text/") or kind in ("application/javascript", "application/json"):
        kind += "; charset=utf-8"
    hashed = name.startswith("assets/")
    cache = "public, max-age=31536000, immutable" if hashed else "no-cache"
    zipped = gzip.compress(body, mtime=0) if len(body) > 1024 else None
    return _File(
        body,
        zipped if zipped is not None and len(zipped) < len(body) else None,
        (
            (b"content-type", kind.encode()),
            (b"cache-control", cache.encode()),
            (b"vary", b"accept-encoding"),
            (b"content-security-policy", POLICY.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
        ),
    )


def _takes_gzip(scope: dict[str, Any]) -> bool:
    return any(
        _GZIP.search(value) for name, value in scope["headers"] if name == b"accept-encoding"
    )


async def _send(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]], *, head: bool
) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})
