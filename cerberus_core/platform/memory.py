"""How much memory there is, and how much a process has of it."""

from collections.abc import Iterable

import psutil

_MIB = 1 << 20


def host_memory() -> tuple[int, int]:
    """(total, available) of this machine, in MiB."""
    memory = psutil.virtual_memory()
    return memory.total // _MIB, memory.available // _MIB


def taken_by(pids: Iterable[int]) -> int | None:
    """Resident memory of processes and all below them, in MiB; None if none is there.

    Pages of files that are mapped count: an engine's weights are such.
    """
    seen: dict[int, int] = {}
    for pid in pids:
        try:
            root = psutil.Process(pid)
            for process in (root, *root.children(recursive=True)):
                seen[process.pid] = process.memory_info().rss
        except psutil.Error:
            continue
    return sum(seen.values()) // _MIB if seen else None
