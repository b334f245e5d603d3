"""Files that somebody else may have put in place. Light: every command imports it."""

import errno
import os
import stat
from pathlib import Path


def read_regular(file: Path, most: int) -> bytes:
    """What a regular file, or one that a link leads to, holds. Never waits for a writer.

    Raises OSError: EINVAL where it is a pipe, device, socket or folder, EFBIG where it
    holds more than `most` bytes.
    """
    _must_be_regular(os.stat(file), file)  # some devices do something when they are opened
    flags = [getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY")]
    with open(os.open(file, os.O_RDONLY | sum(flags)), "rb") as opened:
        _must_be_regular(os.fstat(opened.fileno()), file)
        data = opened.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it holds more than {most >> 20} MiB", str(file))
    return data


def _must_be_regular(found: os.stat_result, file: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))
