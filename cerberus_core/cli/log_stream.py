"""A stderr that never makes the daemon wait: a pipe may be full, and nobody may read it."""

import contextlib
import io
import os
import queue
import select
import threading

LIMIT = 4 << 20
"""Characters that wait to be written; further ones are dropped."""
FINISH_S = 1.0


class LogStream(io.TextIOBase):
    """Text for a file descriptor, written by a thread of its own.

    Once too much waits, all is dropped until that is written; then the lines are told.
    """

    def __init__(self, fd: int, *, encoding: str = "utf-8", limit: int = LIMIT) -> None:
        self._fd = fd
        self._encoding = encoding
        self._limit = limit
        self._mutex = threading.RLock()  # a finalizer may write while its thread does
        self._waiting = 0
        self._dropping = False
        self._dropped_lines = 0
        self._queue: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        threading.Thread(target=self._drain, name="log", daemon=True).start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._mutex:
            self._dropping = self._dropping or self._waiting + len(text) > self._limit
            if self._dropping:
                self._dropped_lines += text.count("\n")
                return len(text)
            self._waiting += len(text)
        self._queue.put(text)
        return len(text)

    def finish(self, timeout: float = FINISH_S) -> None:
        """Wait until all is written, or for so long."""
        written = threading.Event()
        self._queue.put(written)
        written.wait(timeout)

    def _drain(self) -> None:
        while True:
            item = self._queue.get()
            if isinstance(item, threading.Event):
                item.set()
                continue
            self._send(item)
            with self._mutex:
                self._waiting -= len(item)
                lines = None
                if self._dropping and not self._waiting:
                    lines, self._dropped_lines = self._dropped_lines, 0
                    self._dropping = False
            if lines is not None:
                self._send(f"\n{lines} lines of the log were dropped: nobody read them in time\n")

    def _send(self, text: str) -> None:
        data = memoryview(text.encode(self._encoding, "backslashreplace"))
        with contextlib.suppress(OSError):  # nobody reads any more: no reason to fail
            while data:
                try:
                    data = data[os.write(self._fd, data) :]
                except BlockingIOError:
                    select.select([], [self._fd], [])
