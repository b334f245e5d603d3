"""Signs of life of a process that is loading, and whose port is whose. Blocking: use threads."""

import contextlib
import functools
import socket

import psutil

from cerberus_core.platform import Child


def signs(child: Child) -> tuple[int, int, int]:
    """(time of the log's last line, bytes resident, bytes read); 0 for the unknown.

    Of the program and its children. Any of them growing means that the load goes on.
    """
    log = resident = read = 0
    with contextlib.suppress(OSError):
        log = child.log.stat().st_mtime_ns
    for process in _family(child):
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            resident += process.memory_info().rss
            if hasattr(process, "io_counters"):
                counters = process.io_counters()
                read += getattr(counters, "read_chars", counters.read_bytes)
    return log, resident, read


def owns(child: Child, port: int) -> bool | None:
    """Whether the program or a child of it listens on `port`; None if that can't be known."""
    hidden = False
    for process in _family(child):
        try:
            if _listens(process, port):
                return True
        except psutil.NoSuchProcess:
            continue  # whoever has ended owns nothing
        except (psutil.Error, OSError):
            hidden = True
    return False if not hidden and _owners_show() else None


@functools.cache
def _owners_show() -> bool:
    """Whether this system tells which process has which port: some sandboxes don't."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        with contextlib.suppress(psutil.Error, OSError):
            return _listens(psutil.Process(), own.getsockname()[1])
    return False


def _listens(process: psutil.Process, port: int) -> bool:
    return any(
        connection.status == psutil.CONN_LISTEN
        and bool(connection.laddr)
        and connection.laddr.port == port
        for connection in process.net_connections(kind="tcp")
    )


def _family(child: Child) -> list[psutil.Process]:
    if child.pid is None:
        return []
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error, OSError):
        family.append(psutil.Process(child.pid))
        family += family[0].children(recursive=True)
    return family
