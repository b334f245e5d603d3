"""A listening socket, and why there is none."""

import errno
import os
import socket

from cerberus_core.errors import AddressInUse, AddressRefused


def listen(host: str, port: int) -> socket.socket:
    """A non-blocking TCP socket that takes connections; port 0 is any free one.

    May ask a name server: call it from a thread. Raises `AddressRefused`.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(
            f"{host!r} is no address of this machine: {getattr(error, 'strerror', None) or error}",
            hint="Use 127.0.0.1, ::1, or an address that `ip addr` shows.",
        ) from None
    family, kind, proto, _, address = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        if os.name != "nt":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(2048)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _refused(host, port, error) from None
    return sock


def url_of(sock: socket.socket) -> str:
    """Where a local client reaches it, without a slash at the end."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refused(host: str, port: int, error: OSError) -> AddressRefused:
    if error.errno == errno.EADDRINUSE:
        free = port + 1 if port < 65535 else port - 1
        return AddressInUse(
            f"Port {port} is in use on {host}",
            hint=f"Choose another: `cerberus serve --port {free}`, or 0 for any free one.",
        )
    if error.errno == errno.EACCES:
        return AddressRefused(
            f"Port {port} needs rights that this user has not",
            hint="Use a port above 1023, such as 7733.",
        )
    return AddressRefused(
        f"{host} can't be listened on: {error.strerror or error}",
        hint="Use 127.0.0.1, ::1, or an address that `ip addr` shows.",
    )
