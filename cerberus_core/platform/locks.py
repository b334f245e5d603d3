"""A lock on a file, held until closed or until the process dies."""

import os
import sys
from pathlib import Path
from types import TracebackType


class FileLock:
    """An advisory lock that the kernel drops when its holder dies.

    >>> lock = FileLock(path)
    >>> lock.acquire(blocking=False)   # False: somebody else has it

    The file stays on disk: removing it would let two holders in.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take it; without `blocking`, False if somebody has it. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            taken = _lock(fd, blocking)
        except BaseException:
            os.close(fd)
            raise
        if not taken:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def is_held(self) -> bool:
        """Whether somebody has it now. Makes no file."""
        if not self.path.exists():
            return False
        fd = os.open(self.path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        try:
            return not _lock_shared(fd)
        finally:
            os.close(fd)

    def release(self) -> None:
        """Give it back; harmless if not held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> "FileLock":
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, blocking: bool) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_LOCK if blocking else msvcrt.LK_NBLCK, 1)
        except OSError:
            if blocking:
                raise
            return False
        return True

    def _lock_shared(fd: int) -> bool:
        return _lock(fd, blocking=False)

else:
    import fcntl

    def _lock(fd: int, blocking: bool) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def _lock_shared(fd: int) -> bool:
        # Two that only look must not take each other for a holder.
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
