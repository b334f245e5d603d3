"""The state file: made, migrated, set aside when broken, done without when it can't be."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cerberus_core.store import Database
from cerberus_core.store.migrations import MIGRATIONS

STEP = "CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER);"
PUT = "INSERT OR REPLACE INTO t VALUES (?, ?)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "state.sqlite"


def test_what_is_written_is_there_after_the_next_start(file: Path) -> None:
    first = Database(file, migrations=[STEP])
    assert first.write(PUT, [("a", 1), ("b", 2)])
    first.close()
    again = Database(file, migrations=[STEP])
    assert again.read("SELECT k, v FROM t ORDER BY k") == [("a", 1), ("b", 2)]
    assert again.warning is None


def test_later_steps_are_added_to_what_is_there(file: Path) -> None:
    Database(file, migrations=[STEP]).write(PUT, [("a", 1)])
    grown = Database(file, migrations=[STEP, "ALTER TABLE t ADD COLUMN w TEXT DEFAULT 'x';"])
    assert grown.read("SELECT * FROM t") == [("a", 1, "x")]


def test_a_step_that_fails_leaves_the_step_before(file: Path) -> None:
    Database(file, migrations=[STEP]).write(PUT, [("a", 1)])
    with pytest.raises(sqlite3.OperationalError, match="NONSENSE"):  # a bug of ours
        Database(file, migrations=[STEP, "CREATE TABLE u (k TEXT); NONSENSE;"])
    good = Database(file, migrations=[STEP])
    assert good.read("SELECT v FROM t") == [(1,)]
    assert good.read("SELECT name FROM sqlite_master WHERE name = 'u'") == []


def test_a_write_is_all_or_none(file: Path) -> None:
    database = Database(file, migrations=[STEP])
    assert not database.write("INSERT INTO t VALUES (?, ?)", [("a", 1), ("a", 2)])
    assert database.read("SELECT * FROM t") == []
    assert database.write(PUT, [("a", 3)])
    assert database.warning is None


def test_a_broken_file_is_set_aside_and_kept(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"not a database at all" * 100)
    database = Database(file, migrations=[STEP])
    assert database.write(PUT, [("a", 1)])
    aside = list(file.parent.glob("state.sqlite.broken-*"))
    assert [path.read_bytes()[:5] for path in aside] == [b"not a"]


def test_a_file_of_a_newer_version_is_left_alone(file: Path) -> None:
    Database(file, migrations=[STEP, "CREATE TABLE u (k TEXT);"]).close()
    before = file.read_bytes()
    older = Database(file, migrations=[STEP])
    assert "newer Cerberus" in (older.warning or "")
    assert older.write(PUT, [("a", 1)])  # in memory
    older.close()
    assert file.read_bytes() == before


def test_a_folder_that_can_not_be_made_costs_the_memory_of_it_alone(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    database = Database(tmp_path / "data" / "state.sqlite", migrations=[STEP])
    assert "kept in memory" in (database.warning or "")
    assert database.write(PUT, [("a", 1)])
    assert database.read("SELECT v FROM t") == [(1,)]


def test_a_kill_in_the_middle_of_a_write_loses_that_write_alone(file: Path) -> None:
    Database(file, migrations=[STEP]).write(PUT, [("a", 1)])
    program = (
        "import os, sys; from pathlib import Path; from cerberus_core.store import Database\n"
        "d = Database(Path(sys.argv[1]), migrations=[sys.argv[2]])\n"
        "def rows():\n"
        "    yield 'b', 2\n"
        "    os.kill(os.getpid(), 9)\n"
        f"d.write({PUT!r}, rows())\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(file), STEP], check=False)
    assert killed.returncode == -9
    assert Database(file, migrations=[STEP]).read("SELECT k FROM t") == [("a",)]


def test_the_schema_is_made_whole(file: Path) -> None:
    database = Database(file)
    assert database.warning is None
    assert database.read("PRAGMA user_version") == [(len(MIGRATIONS),)]


def test_the_file_can_be_copied_once_closed(file: Path, tmp_path: Path) -> None:
    database = Database(file, migrations=[STEP])
    database.write(PUT, [("a", 1)])
    database.close()
    shutil.copy(file, tmp_path / "copy")
    with sqlite3.connect(tmp_path / "copy") as copy:
        assert copy.execute("SELECT v FROM t").fetchall() == [(1,)]
    copy.close()
