"""Limits that the operating system sets to this process."""

import contextlib
import sys

MOST_FILES = 65536


def raise_open_files(most: int = MOST_FILES) -> None:
    """Let this process (and what it starts) open as many files as it may, up to `most`.

    Usual soft limits are 256 and 1024; each connection is one file.
    """
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    # darwin calls its hard limit infinite and takes no more than 10240 of some.
    for wanted in (most, 10240):
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if allowed <= soft:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            return
