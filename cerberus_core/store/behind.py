"""Facts that wait for the disk."""

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import structlog

BATCH_S = 0.25
"""How long facts are gathered before they are written, in seconds."""
AGAIN_S = 2.0
"""How long after a refusal of the disk it is tried again."""
STOP_S = 5.0
"""How long a stop waits for the last try."""
MOST = 10_000
"""Facts that wait before the oldest are dropped."""

Statement = tuple[str, Sequence[Sequence[Any]]]
"""SQL, and the rows that it is run with."""

_log = structlog.get_logger("store")


class Behind:
    """One thread that writes what `put` was given. Nobody waits for it but `close`."""

    def __init__(self, write: Callable[[Sequence[Statement]], bool]) -> None:
        """`write` writes all or none, and says whether it did."""
        self._write = write
        self._waiting: dict[Hashable, Sequence[Statement]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, key: Hashable, statements: Sequence[Statement]) -> None:
        """Take one fact, in place of what still waits of the same `key`."""
        with self._lock:
            self._waiting.pop(key, None)
            self._waiting[key] = statements
            self._bound()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="state-writer", daemon=True)
                self._thread.start()
        self._wake.set()

    def close(self) -> bool:
        """Try once to write what waits; whether the thread has ended."""
        with self._lock:
            self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(STOP_S)
        return self._thread is None or not self._thread.is_alive()

    def _bound(self) -> None:
        while len(self._waiting) > MOST:
            del self._waiting[next(iter(self._waiting))]

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            self._stop.wait(BATCH_S)
            last = self._stop.is_set()
            written = self._flush()
            if last or (not written and self._stop.is_set()):
                return
            if not written:
                self._stop.wait(AGAIN_S)
                self._wake.set()

    def _flush(self) -> bool:
        with self._lock:
            batch, self._waiting = self._waiting, {}
        if not batch or self._written(batch):
            return True
        with self._lock:
            newer, self._waiting = self._waiting, batch
            for key, statements in newer.items():
                self._waiting.pop(key, None)
                self._waiting[key] = statements
            self._bound()
        return False

    def _written(self, batch: dict[Hashable, Sequence[Statement]]) -> bool:
        try:
            return self._write([one for statements in batch.values() for one in statements])
        except Exception as error:  # noqa: BLE001 - text that is no UTF-8, say
            if len(batch) == 1:
                _log.warning("fact_unwritable", fact=repr(next(iter(batch))), error=str(error))
                return True
        # One that can't be written must not take the others with it.
        return all(self._written({key: statements}) for key, statements in batch.items())
