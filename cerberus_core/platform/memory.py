"""How much memory there is, and how much a process has of it."""

from collections.abc import Iterable

import psutil

_MIB = 1 << 20


def host_memory() -> tuple[int, int]:
    """(total, available) of this machine, in MiB."""
    memory = psutil.virtual_memory()
    return memory.total // _MIB, memory.available // _MIB


def with_children(pids: Iterable[int]) -> list[int]:
    """The processes that are there, and all below them."""
    family: dict[int, None] = {}
    for pid in pids:
        try:
            root = psutil.Process(pid)
            family |= {process.pid: None for process in (root, *root.children(recursive=True))}
        except psutil.Error:
            continue
    return list(family)


def taken_by(pids: Iterable[int]) -> int | None:
    """Resident memory of processes and all below them, in MiB; None if none is there.

    Pages of files that are mapped count: an engine's weights are such.
    """
    sizes: list[int] = []
    for pid in with_children(pids):
        try:
            sizes.append(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            continue
    return sum(sizes) // _MIB if sizes else None
