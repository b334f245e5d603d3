"""Signs of life of a process that is loading, and whose port is whose. Blocking: use threads."""

import contextlib

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
    known: bool | None = None
    for process in _family(child):
        try:
            connections = process.net_connections(kind="tcp")
        except (psutil.Error, OSError):
            continue
        known = False
        for connection in connections:
            if (
                connection.status == psutil.CONN_LISTEN
                and connection.laddr
                and connection.laddr.port == port
            ):
                return True
    return known


def _family(child: Child) -> list[psutil.Process]:
    if child.pid is None:
        return []
    try:
        process = psutil.Process(child.pid)
        return [process, *process.children(recursive=True)]
    except (psutil.Error, OSError):
        return []
