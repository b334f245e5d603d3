"""What is learned of the memory of models, and what is forgotten."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cerberus_core.engines.footprints import Footprints, believed
from cerberus_core.engines.residency import Pool
from cerberus_core.store import Database
from cerberus_core.values import Estimate, LoadPlan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = Pool(name="host", total=9000, free=9000, budget=9000)
CARD = Pool(name="nvidia0", total=9000, free=9000, budget=9000)
ESTIMATE = Estimate(weights_mib=300)


def test_more_is_believed_at_once_and_less_only_of_a_model_in_use() -> None:
    assert believed(None, {"host": 160}, used=False) == {"host": 160}
    assert believed({"host": 160}, {"host": 174}, used=False) == {"host": 174}
    assert believed({"host": 174}, {"host": 160}, used=False) == {"host": 174}, "it just came"
    assert believed({"host": 174}, {"host": 160}, used=True) == {"host": 167}
    moved = {"nvidia0": 150}
    assert believed({"host": 174}, moved, used=False) == moved


def test_what_was_learned_of_a_card_that_has_gone_is_no_reason_to_refuse() -> None:
    footprints = Footprints()
    footprints.learn_taken("m", LoadPlan(), {"nvidia0": 200}, NOW, used=True)
    assert footprints.expected("m", LoadPlan(), ESTIMATE, [HOST, CARD]).source == "learned"
    without = footprints.expected("m", LoadPlan(), ESTIMATE, [HOST])
    assert (without.source, without.footprint) == ("estimated", {"host": 300})


def test_a_model_that_moved_to_another_memory_is_kept_there_alone(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.sqlite")
    footprints = Footprints(database)
    footprints.learn_taken("m", LoadPlan(), {"nvidia0": 200}, NOW, used=True)
    footprints.learn_taken("m", LoadPlan(), {"host": 250}, NOW, used=True)
    database.close()
    database = Database(tmp_path / "state.sqlite")
    again = Footprints(database).expected("m", LoadPlan(), ESTIMATE, [HOST, CARD])
    database.close()
    assert (again.source, again.footprint) == ("learned", {"host": 250})


def rows(file: Path, table: str, *values: tuple[Any, ...]) -> None:
    """As another program may write them."""
    Database(file).close()
    with sqlite3.connect(file) as other:
        marks = ", ".join("?" * len(values[0]))
        other.executemany(f"INSERT INTO {table} VALUES ({marks}, 'now')", values)
    other.close()


@pytest.mark.parametrize("mib", ["abc", -1, 1 << 41, 1 << 62, 1.5, b"\x00"])
def test_a_row_that_can_not_be_is_dropped_and_the_others_count(tmp_path: Path, mib: Any) -> None:
    file = tmp_path / "state.sqlite"
    rows(file, "footprints", ("good", "", "host", 200), ("m", "", "host", 100))
    rows(file, "footprints", ("m", "", "nvidia0", mib))
    database = Database(file)
    with capture_logs() as logs:
        footprints = Footprints(database)
    database.close()
    assert [(line["event"], line["count"]) for line in logs] == [("facts_dropped", 1)]
    assert footprints.expected("m", LoadPlan(), ESTIMATE, [HOST, CARD]).source == "estimated"
    good = footprints.expected("good", LoadPlan(), ESTIMATE, [HOST])
    assert (good.source, good.footprint) == ("learned", {"host": 200})


@pytest.mark.parametrize("name", [b"\xff", None])
def test_a_name_that_is_none_is_dropped(tmp_path: Path, name: Any) -> None:
    file = tmp_path / "state.sqlite"
    rows(file, "footprints", ("good", "", "host", 200))
    with sqlite3.connect(file) as other:
        text = "CAST(x'ff41' AS TEXT)" if name is None else "x'ff'"
        other.execute(f"INSERT INTO footprints VALUES ({text}, '', 'host', 5, 'now')")
    other.close()
    database = Database(file)
    footprints = Footprints(database)
    assert database.warnings == []
    database.close()
    assert footprints.expected("good", LoadPlan(), ESTIMATE, [HOST]).source == "learned"


@pytest.mark.parametrize("seconds", ["abc", -1, float("inf"), 1e300, b"\x00"])
def test_a_load_time_that_can_not_be_is_dropped(tmp_path: Path, seconds: Any) -> None:
    file = tmp_path / "state.sqlite"
    rows(file, "load_times", ("good", "", 5), ("m", "", seconds))
    database = Database(file)
    footprints = Footprints(database)
    database.close()
    assert footprints.load_s("m", LoadPlan()) is None
    assert footprints.load_s("good", LoadPlan()) == 5


@pytest.mark.parametrize("mib", [-1, (1 << 40) + 1, 1.5, float("nan"), "abc", True, None])
def test_what_can_not_be_is_not_learned(mib: Any) -> None:
    footprints = Footprints()
    assert footprints.learn_taken("m", LoadPlan(), {"host": mib}, NOW, used=True) == {}
    assert footprints.expected("m", LoadPlan(), ESTIMATE, [HOST]).source == "estimated"
    footprints.learn_taken("m", LoadPlan(), {"host": 5}, NOW, used=True)
    assert footprints.learn_taken("m", LoadPlan(), {"host": mib}, NOW, used=True) == {"host": 5}


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e300])
def test_a_time_that_can_not_be_is_not_learned(seconds: float) -> None:
    footprints = Footprints()
    footprints.learn_load("m", LoadPlan(), seconds, NOW)
    assert footprints.load_s("m", LoadPlan()) is None
