"""The usage log on disk and its last records in memory."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from cerberus_core.values import Aggregate, KeyAggregate, Record, time_of

from .lines import aggregate, aggregate_keys, decode, encode

BATCH_S = 0.25
"""How long the writer gathers records before it writes them, in seconds."""
QUEUE = 10_000
"""Records that wait for the disk before the oldest are dropped (and counted)."""

_CURRENT = "usage.jsonl"

T = TypeVar("T")
_log = structlog.get_logger("usage")


class Store:
    """Appends records; keeps the last `keep` in memory; sums them up.

    `add` is called from the event loop and never blocks on the disk. While the
    disk can't be written, records stay in memory, `warning` says so, and every
    later batch tries again.
    """

    def __init__(self, folder: Path, *, keep: int = 1000, rotate_bytes: int = 64 << 20) -> None:
        self.folder = folder
        self.warning: str | None = None
        self.dropped = 0
        self._keep = keep
        self._rotate_bytes = rotate_bytes
        self._recent: deque[Record] = deque(maxlen=keep)
        self._forgotten_to: datetime | None = None
        self._queue: deque[Record] = deque()
        self._told: Callable[[Record], None] = lambda _: None
        self._fd: int | None = None
        self._size = 0
        self._write_lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._load_recent()
        self._thread = threading.Thread(target=self._write_loop, name="usage-writer", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Take one record. Returns at once."""
        recent = self._recent
        if len(recent) == self._keep:
            began = recent[0].time
            if self._forgotten_to is None or began > self._forgotten_to:
                self._forgotten_to = began
        recent.append(record)
        self._queue.append(record)
        self._told(record)
        if len(self._queue) > QUEUE:
            self._bound_queue()
        if not self._wake.is_set():
            self._wake.set()

    def follow(self, told: Callable[[Record], None]) -> None:
        """Call `told` with each record that is added from now on."""
        self._told = told

    def recent(self, n: int) -> list[Record]:
        """The last `n` records, newest first."""
        return list(islice(reversed(self._recent), n))

    def find(self, request_id: str) -> Record | None:
        """The record of a request, from memory or the files. Blocking.

        Ids sort by the time they were made, and a file holds none that was made after it was
        written last.
        """
        found = next((r for r in reversed(self._recent) if r.id == request_id), None)
        if found is not None or self._forgotten_to is None:
            return found
        with self._write_lock:
            made = time_of(request_id)
            if made is None:
                return None
            records = self._records_since(made)
            return next((record for record in records if record.id == request_id), None)

    def aggregate(self, since: datetime) -> list[Aggregate]:
        """Sums by model from `since` on. Reads files where memory doesn't reach back: blocking."""
        return self._summed(aggregate, since)

    def aggregate_keys(self, since: datetime) -> list[KeyAggregate]:
        """Sums by gateway key. Blocking as `aggregate`."""
        return self._summed(aggregate_keys, since)

    def _summed(self, sums: Callable[[Iterable[Record], datetime], T], since: datetime) -> T:
        # Records are in the order in which requests ended: a long one began before the
        # others. So what counts is when the latest began that memory has forgotten.
        recent = list(self._recent)
        if self._forgotten_to is None or self._forgotten_to < since:
            return sums(recent, since)
        with self._write_lock:
            self._write_waiting()
            return sums(chain(self._records_since(since), list(self._queue)), since)

    def flush(self) -> None:
        """Write what waits, now. Blocking."""
        with self._write_lock:
            self._write_waiting()

    def close(self) -> None:
        """Write what waits and stop the writer."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=10)
        self.flush()
        with self._write_lock:
            self._close_file()

    def _forget(self, began: datetime) -> None:
        """A request that began then is no longer in memory."""
        if self._forgotten_to is None or began > self._forgotten_to:
            self._forgotten_to = began

    def _bound_queue(self) -> None:
        while len(self._queue) > QUEUE:
            self._queue.popleft()
            self.dropped += 1

    def _write_loop(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            self._stop.wait(BATCH_S)
            self.flush()
            if self._queue and not self._stop.is_set():  # the disk refused: try again later
                self._stop.wait(BATCH_S * 8)
                self._wake.set()

    def _write_waiting(self) -> None:
        batch: list[Record] = []
        while self._queue and len(batch) < QUEUE:
            batch.append(self._queue.popleft())
        if not batch:
            return
        try:
            self._append(self._encoded(batch))
        except OSError as error:
            if self.warning is None:
                _log.warning("usage_log_unwritable", error=str(error), folder=str(self.folder))
            self._queue.extendleft(reversed(batch))
            self._bound_queue()
            self.warning = (
                f"The usage log can't be written ({error.strerror or error}); "
                f"records are kept in memory"
                + (f", {self.dropped} were dropped. " if self.dropped else ". ")
                + f"Check the disk of {self.folder}."
            )
            return
        if self.warning is not None:
            _log.info("usage_log_writable_again")
            self.warning = None

    def _encoded(self, batch: list[Record]) -> bytes:
        try:
            return encode(batch)
        except (ValueError, TypeError, msgspec.MsgspecError):
            pass
        lines = []
        for record in batch:
            try:
                lines.append(encode([record]))
            except (ValueError, TypeError, msgspec.MsgspecError) as error:
                # One that can't be written must not take the others with it.
                self.dropped += 1
                _log.warning("usage_record_unwritable", id=record.id, error=str(error))
        return b"".join(lines)

    def _append(self, data: bytes) -> None:
        if self._fd is not None and self._size + len(data) > self._rotate_bytes and self._size:
            self._rotate()
        fd = self._open_file()
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            # Half a batch on disk would be written twice: take it back.
            os.ftruncate(fd, self._size)
            raise
        self._size += len(data)

    def _open_file(self) -> int:
        if self._fd is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / _CURRENT
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(fd).st_size
                os.lseek(fd, max(0, size - 1), os.SEEK_SET)
                if size and os.read(fd, 1) != b"\n":
                    # A torn last line must not swallow the next record.
                    size += os.write(fd, b"\n")
            except OSError:
                os.close(fd)
                raise
            self._fd, self._size = fd, size
        return self._fd

    def _close_file(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _rotate(self) -> None:
        self._close_file()
        last = max((_number(path) for path in self.folder.glob("usage-*.jsonl")), default=0)
        (self.folder / _CURRENT).rename(self.folder / f"usage-{last + 1:06d}.jsonl")

    def _files_newest_first(self) -> list[Path]:
        rotated = sorted(self.folder.glob("usage-*.jsonl"), key=_number, reverse=True)
        current = self.folder / _CURRENT
        return [current, *rotated] if current.exists() else rotated

    def _load_recent(self) -> None:
        newest: list[Record] = []
        for path in self._files_newest_first():
            try:
                if len(newest) >= self._keep:
                    # Whatever is in a file that isn't read began before its last write.
                    self._forget(datetime.fromtimestamp(path.stat().st_mtime, UTC))
                    break
                records, bad = decode(path.read_bytes())
            except OSError as error:
                _log.warning("usage_log_unreadable", file=str(path), error=str(error))
                continue
            if bad:
                _log.warning("usage_lines_unreadable", file=str(path), lines=bad)
            newest = records + newest
        for record in newest[: -self._keep]:
            self._forget(record.time)
        self._recent.extend(newest[-self._keep :])

    def _records_since(self, since: datetime) -> Iterator[Record]:
        for path in reversed(self._files_newest_first()):
            try:
                if path.stat().st_mtime < since.timestamp():
                    continue
                records, _ = decode(path.read_bytes())
            except OSError:
                continue
            yield from records


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("usage-")
    return int(digits) if digits.isascii() and digits.isdigit() else 0
