"""The state file: made, migrated, set aside when broken, done without when it can't be."""

import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cerberus_core.store import Database
from cerberus_core.store.behind import Behind, Statement
from cerberus_core.store.migrations import MIGRATIONS

STEP = "CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER);"
PUT = "INSERT OR REPLACE INTO t VALUES (?, ?)"
A = [(PUT, [("a", 1)])]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "state.sqlite"


def test_what_is_written_is_there_after_the_next_start(file: Path) -> None:
    first = Database(file, migrations=[STEP])
    assert first.write([(PUT, [("a", 1), ("b", 2)])])
    first.close()
    again = Database(file, migrations=[STEP])
    assert again.read("SELECT k, v FROM t ORDER BY k") == [("a", 1), ("b", 2)]
    assert again.warnings == []


def test_later_steps_are_added_to_what_is_there(file: Path) -> None:
    Database(file, migrations=[STEP]).write(A)
    grown = Database(file, migrations=[STEP, "ALTER TABLE t ADD COLUMN w TEXT DEFAULT 'x';"])
    assert grown.read("SELECT * FROM t") == [("a", 1, "x")]


def test_a_step_that_fails_leaves_the_step_before(file: Path) -> None:
    Database(file, migrations=[STEP]).write(A)
    with pytest.raises(sqlite3.OperationalError, match="NONSENSE"):  # a bug of ours
        Database(file, migrations=[STEP, "CREATE TABLE u (k TEXT); NONSENSE;"])
    good = Database(file, migrations=[STEP])
    assert good.read("SELECT v FROM t") == [(1,)]
    assert good.read("SELECT name FROM sqlite_master WHERE name = 'u'") == []


def test_a_write_is_all_or_none(file: Path) -> None:
    database = Database(file, migrations=[STEP])
    assert not database.write(
        [(PUT, [("b", 1)]), ("INSERT INTO t VALUES (?, ?)", [("a", 1), ("a", 2)])]
    )
    assert database.read("SELECT * FROM t") == []
    assert database.write([(PUT, [("a", 3)])])
    assert database.warnings == []


def test_a_broken_file_is_set_aside_and_kept(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"not a database at all" * 100)
    database = Database(file, migrations=[STEP])
    assert database.write(A)
    aside = list(file.parent.glob("state.sqlite.broken-*"))
    assert [path.read_bytes()[:5] for path in aside] == [b"not a"]
    [warning] = database.warnings
    assert f"set aside as {aside[0].name}" in warning


def test_a_file_of_a_newer_version_is_left_alone(file: Path) -> None:
    Database(file, migrations=[STEP, "CREATE TABLE u (k TEXT);"]).close()
    before = file.read_bytes()
    older = Database(file, migrations=[STEP])
    assert "newer Cerberus" in older.warnings[0]
    assert older.write(A)  # in memory
    assert "newer Cerberus" in older.warnings[0], "and it is still so"
    older.close()
    assert file.read_bytes() == before


def test_a_folder_that_can_not_be_made_costs_the_memory_of_it_alone(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    database = Database(tmp_path / "data" / "state.sqlite", migrations=[STEP])
    assert "kept in memory" in database.warnings[0]
    assert database.write(A)
    assert database.read("SELECT v FROM t") == [(1,)]
    assert "kept in memory" in database.warnings[0]


def test_a_kill_in_the_middle_of_a_write_loses_that_write_alone(file: Path) -> None:
    Database(file, migrations=[STEP]).write(A)
    program = (
        "import os, sys; from pathlib import Path; from cerberus_core.store import Database\n"
        "d = Database(Path(sys.argv[1]), migrations=[sys.argv[2]])\n"
        "def rows():\n"
        "    yield 'b', 2\n"
        "    os.kill(os.getpid(), 9)\n"
        f"d.write([({PUT!r}, rows())])\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(file), STEP], check=False)
    assert killed.returncode == -9
    assert Database(file, migrations=[STEP]).read("SELECT k FROM t") == [("a",)]


def test_the_schema_is_made_whole(file: Path) -> None:
    database = Database(file)
    assert database.warnings == []
    assert database.read("PRAGMA user_version") == [(len(MIGRATIONS),)]


def test_the_file_can_be_copied_once_closed(file: Path, tmp_path: Path) -> None:
    database = Database(file, migrations=[STEP])
    database.write(A)
    database.close()
    shutil.copy(file, tmp_path / "copy")
    with sqlite3.connect(tmp_path / "copy") as copy:
        assert copy.execute("SELECT v FROM t").fetchall() == [(1,)]
    copy.close()


def until(what: Callable[[], bool]) -> None:
    latest = time.monotonic() + 20
    while not what():
        assert time.monotonic() < latest
        time.sleep(0.01)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerberus_core.store.behind.BATCH_S", 0.01)
    monkeypatch.setattr("cerberus_core.store.behind.AGAIN_S", 0.05)
    monkeypatch.setattr("cerberus_core.store.database.BUSY_S", 0.05)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """As another program does that writes for long."""
    other = sqlite3.connect(file)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.rollback()
    other.close()


@pytest.mark.usefixtures("quick")
def test_a_file_that_another_program_locks_is_told_until_it_lets_go(file: Path) -> None:
    database = Database(file, migrations=[STEP])
    with locked(file):
        database.later("a", A)
        until(lambda: database.warnings != [])
        [warning] = database.warnings
        assert "locked" in warning
        database.later("b", [(PUT, [("b", 1)])])
        database.later("b", [(PUT, [("b", 2)])])
    until(lambda: database.warnings == [])
    assert database.read("SELECT k, v FROM t ORDER BY k") == [("a", 1), ("b", 2)]
    database.close()


@pytest.mark.usefixtures("quick")
def test_a_lock_holds_up_neither_who_has_learned_nor_the_stop(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cerberus_core.store.database.BUSY_S", 1.0)
    database = Database(file, migrations=[STEP])
    with locked(file):
        began = time.monotonic()
        for number in range(100):
            database.later(number, [(PUT, [(str(number), number)])])
        assert time.monotonic() - began < 0.9
        database.close()
        assert time.monotonic() - began < 4


def test_what_waits_at_the_stop_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerberus_core.store.behind.BATCH_S", 3600.0)
    database = Database(file, migrations=[STEP])
    database.later("a", A)
    database.close()
    assert Database(file, migrations=[STEP]).read("SELECT k FROM t") == [("a",)]


@pytest.mark.usefixtures("quick")
def test_a_fact_that_can_not_be_written_takes_no_other_with_it(file: Path) -> None:
    database = Database(file, migrations=[STEP])
    for name in ("a", "\udcff", "b"):
        database.later(name, [(PUT, [(name, 1)])])
    database.later("huge", [(PUT, [("c", 1 << 80)])])
    database.close()
    assert Database(file, migrations=[STEP]).read("SELECT k FROM t") == [("a",), ("b",)]


def test_those_that_wait_too_long_are_dropped_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cerberus_core.store.behind.MOST", 2)
    monkeypatch.setattr("cerberus_core.store.behind.BATCH_S", 3600.0)
    seen: list[Statement] = []

    def write(statements: Sequence[Statement]) -> bool:
        seen.extend(statements)
        return True

    behind = Behind(write)
    for name in "abca":
        behind.put(name, [(name, [])])
    assert behind.close()
    assert [sql for sql, _ in seen] == ["c", "a"]
