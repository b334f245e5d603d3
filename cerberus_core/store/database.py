"""One SQLite file, opened carefully."""

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from .migrations import MIGRATIONS

BUSY_S = 5.0
"""How long another program's lock on the file is waited for."""

_log = structlog.get_logger("store")


class Database:
    """Blocking: call it from a thread.

    A file that is broken is set aside and a new one begun; where none can be
    written, what is learned is kept in memory. `warning` says so.
    """

    def __init__(self, file: Path, *, migrations: Sequence[str] = MIGRATIONS) -> None:
        self.file = file
        self.warning: str | None = None
        self._migrations = migrations
        self._lock = threading.Lock()
        self._db = self._open()

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a SELECT; none where the file can't be read any more."""
        with self._lock:
            try:
                return self._db.execute(sql, values).fetchall()
            except sqlite3.DatabaseError as error:
                self._warn(f"{self.file} can't be read: {error}")
                return []

    def write(self, sql: str, rows: Iterable[Sequence[Any]]) -> bool:
        """Run `sql` once for each of `rows`, all or none; False if that could not be."""
        with self._lock:
            try:
                with self._db:
                    self._db.executemany(sql, rows)
            except sqlite3.DatabaseError as error:
                self._warn(f"{self.file} can't be written: {error}. Check its disk.")
                return False
            self.warning = None
            return True

    def close(self) -> None:
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
                self._warn(f"{self.file} was broken ({error}); it was set aside as {aside.name}")
                return database
        except OSError as error:
            problem = error.strerror or str(error)
        self._warn(f"{self.file} can't be used ({problem}); what is learned is kept in memory")
        return self._prepared(":memory:")

    def _prepared(self, name: str) -> sqlite3.Connection:
        database = sqlite3.connect(name, timeout=BUSY_S, check_same_thread=False)
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
        return database

    def _warn(self, text: str) -> None:
        if self.warning != text:
            _log.warning("state_file", problem=text)
        self.warning = text
