"""One SQLite file, opened carefully."""

import sqlite3
import threading
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from .behind import Behind, Statement
from .migrations import MIGRATIONS

OPEN_S = 5.0
"""How long another program's lock on the file is waited for at the start."""
BUSY_S = 1.0
"""And by each write; those that wait are tried again."""

_log = structlog.get_logger("store")


class Database:
    """`read`, `write` and `close` block: call them from a thread.

    A file that is broken is set aside and a new one begun; where none can be
    written, what is learned is kept in memory. `warnings` say so.
    """

    def __init__(self, file: Path, *, migrations: Sequence[str] = MIGRATIONS) -> None:
        self.file = file
        self._lasting: list[str] = []
        self._unwritten: str | None = None
        self._migrations = migrations
        self._lock = threading.Lock()
        self._db = self._open()
        self._behind = Behind(self.write)

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the file: since the start, and with the last write."""
        return [*self._lasting, *([self._unwritten] if self._unwritten else [])]

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a SELECT; none where the file can't be read any more."""
        with self._lock:
            try:
                return self._db.execute(sql, values).fetchall()
            except sqlite3.DatabaseError as error:
                self._last(f"{self.file} can't be read: {error}")
                return []

    def later(self, key: Hashable, statements: Sequence[Statement]) -> None:
        """Have `statements` written soon; at once returned. They are tried until they are.

        They replace what still waits of the same `key`.
        """
        self._behind.put(key, statements)

    def write(self, statements: Sequence[Statement]) -> bool:
        """Run each once for each of its rows, all or none; False if that could not be."""
        with self._lock:
            try:
                with self._db:
                    for sql, rows in statements:
                        self._db.executemany(sql, rows)
            except sqlite3.DatabaseError as error:
                text = f"{self.file} can't be written ({error}); what is learned is kept in memory"
                if self._unwritten != text:
                    _log.warning("state_file", problem=text)
                self._unwritten = text
                return False
            if self._unwritten is not None:
                _log.info("state_file_writable_again")
            self._unwritten = None
            return True

    def close(self) -> None:
        """After one try to write what waits. A disk that hangs is left behind."""
        if self._behind.close():
            with self._lock:
                self._db.close()

    def _open(self) -> sqlite3.Connection:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return self._prepared(str(self.file))
        except sqlite3.OperationalError as error:
            problem = str(error)
        except sqlite3.DatabaseError as error:
            aside = self.file.with_name(
                f"{self.file.name}.broken-{datetime.now(UTC):%Y%m%dT%H%M%S}"
            )
            try:
                self.file.rename(aside)
                database = self._prepared(str(self.file))
            except (OSError, sqlite3.DatabaseError) as again:
                problem = str(again)
            else:
                self._last(f"{self.file} was broken ({error}); it was set aside as {aside.name}")
                return database
        except OSError as error:
            problem = error.strerror or str(error)
        self._last(f"{self.file} can't be used ({problem}); what is learned is kept in memory")
        return self._prepared(":memory:")

    def _prepared(self, name: str) -> sqlite3.Connection:
        database = sqlite3.connect(name, timeout=OPEN_S, check_same_thread=False)
        # One torn text must not make all rows unreadable.
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > len(self._migrations):
                raise sqlite3.OperationalError("it was written by a newer Cerberus")
            for number, step in enumerate(self._migrations[version:], version + 1):
                # One transaction each: a kill in the middle leaves the step before.
                database.executescript(f"BEGIN; {step} PRAGMA user_version = {number}; COMMIT;")
        except BaseException:
            database.close()
            raise
        database.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")
        return database

    def _last(self, text: str) -> None:
        if text not in self._lasting:
            _log.warning("state_file", problem=text)
            self._lasting.append(text)
