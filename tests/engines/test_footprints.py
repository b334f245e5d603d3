"""What is learned of the memory of models, and what is forgotten."""

from datetime import UTC, datetime
from pathlib import Path

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
