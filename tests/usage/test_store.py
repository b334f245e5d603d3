"""The usage log: nothing but the damaged line is lost, and a full disk costs only the file."""

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cerberus_core.usage import Store
from cerberus_core.usage import store as store_module
from cerberus_core.usage.lines import aggregate, decode, encode
from cerberus_core.values import Record, new_id

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(n: int, **more: object) -> Record:
    values: dict[str, object] = {
        "id": f"r{n}",
        "time": START + timedelta(seconds=n),
        "model": "m",
        "status": 200,
        **more,
    }
    return Record(**values)  # type: ignore[arg-type]


def ids(store: Store) -> list[str]:
    return [one.id for one in store.recent(1000)]


def test_records_survive_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for n in range(3):
        store.add(record(n, tok_per_sec=1.5, error=None))
    store.close()
    again = Store(tmp_path)
    assert ids(again) == ["r2", "r1", "r0"]
    assert again.recent(1)[0] == record(2, tok_per_sec=1.5)
    assert again.find("r1") == record(1, tok_per_sec=1.5)
    again.close()


def test_one_that_memory_has_forgotten_is_found_on_disk(tmp_path: Path) -> None:
    made = [new_id((START + timedelta(minutes=n)).timestamp()) for n in range(30)]
    store = Store(tmp_path, keep=2, rotate_bytes=2_000)
    for n, one in enumerate(made):
        store.add(record(n, id=one))
        store.flush()
    assert len(list(tmp_path.glob("usage-*.jsonl"))) > 1
    for n in (0, 15, 29):
        found = store.find(made[n])
        assert found is not None
        assert found.time == START + timedelta(seconds=n)
    assert [store.find(name) for name in ("", "r1", "Z" * 26, "!" * 26, new_id())] == [None] * 5
    store.close()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_torn_last_line_loses_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("usage")
    whole = encode([record(0), record(1)])
    torn = whole[: len(whole) - 1 - cut % len(encode([record(1)]))]
    (folder / "usage.jsonl").write_bytes(torn)
    store = Store(folder)
    before = ids(store)
    assert "r0" in before
    store.add(record(2))
    store.close()
    again = Store(folder)
    assert ids(again) == ["r2", *before]
    again.close()


@given(garbage=st.binary(max_size=200), at=st.integers(min_value=0, max_value=3))
def test_garbage_in_the_middle_loses_nothing_else(garbage: bytes, at: int) -> None:
    lines = [encode([record(n)]) for n in range(3)]
    lines.insert(at, garbage.replace(b"\n", b" ") + b"\n")
    records, bad = decode(b"".join(lines))
    assert [one.id for one in records] == ["r0", "r1", "r2"]
    assert bad == (1 if garbage.replace(b"\n", b" ").strip() else 0)


@given(st.binary(max_size=500))
def test_no_bytes_make_the_decoder_raise(data: bytes) -> None:
    decode(data)


def test_the_log_rotates_and_old_files_are_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=10, rotate_bytes=len(encode([record(0)])) * 2)
    for n in range(7):
        store.add(record(n))
        store.flush()
    store.close()
    assert len(list(tmp_path.glob("*.jsonl"))) == 4
    again = Store(tmp_path, keep=5)
    assert ids(again) == ["r6", "r5", "r4", "r3", "r2"]
    assert again.aggregate(START)[0].requests == 7, "sums reach beyond memory"
    again.close()


def test_sums_hold_requests_that_began_late_and_ended_before_a_long_one(tmp_path: Path) -> None:
    """Records come in the order of ending: at the front of memory may be the oldest of all."""
    store = Store(tmp_path, keep=3)
    for began in (50, 51, 0, 60, 70):
        store.add(record(began))
    since = START + timedelta(seconds=10)
    assert ids(store) == ["r70", "r60", "r0"]
    assert store.aggregate(since)[0].requests == 4
    store.close()
    again = Store(tmp_path, keep=3)
    assert again.aggregate(since)[0].requests == 4, "after a restart too"
    again.close()


def test_sums_know_of_files_that_a_start_did_not_read(tmp_path: Path) -> None:
    (tmp_path / "usage-000001.jsonl").write_bytes(encode([record(50), record(51)]))
    (tmp_path / "usage.jsonl").write_bytes(encode([record(0), record(60), record(70)]))
    store = Store(tmp_path, keep=3)
    assert store.aggregate(START + timedelta(seconds=10))[0].requests == 4
    store.close()


def test_sums_read_no_file_where_memory_reaches_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, keep=3)
    for began in (0, 1, 60, 50, 70):
        store.add(record(began))
    monkeypatch.setattr(Store, "_records_since", None)
    assert store.aggregate(START + timedelta(seconds=2))[0].requests == 3
    store.close()


def test_sums_count_what_a_full_disk_does_not_take(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = Store(tmp_path / "file" / "usage", keep=2)
    for n in range(5):
        store.add(record(n))
    assert store.aggregate(START)[0].requests == 5
    store.close()


def test_only_the_user_can_read_the_log(tmp_path: Path) -> None:
    store = Store(tmp_path / "usage")
    store.add(record(0))
    store.close()
    assert (tmp_path / "usage" / "usage.jsonl").stat().st_mode & 0o777 == 0o600


def test_damaged_lines_are_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "usage.jsonl").write_bytes(b"{torn\n" + encode([record(0)]) + b"nonsense\n")
    with structlog.testing.capture_logs() as logs:
        Store(tmp_path).close()
    assert [(line["event"], line["lines"]) for line in logs] == [("usage_lines_unreadable", 2)]


def test_a_full_disk_degrades_to_memory_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write, full = os.write, True

    def write(fd: int, data: bytes) -> int:
        if not full:
            return real_write(fd, data)
        real_write(fd, data[:7])  # a part of it still fits
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Store(tmp_path)
    monkeypatch.setattr(store_module.os, "write", write)
    store.add(record(0))
    store.flush()
    assert store.warning is not None
    assert "No space left" in store.warning
    store.add(record(1))
    assert ids(store) == ["r1", "r0"], "answers and figures go on"
    full = False
    store.flush()
    assert store.warning is None
    store.close()
    monkeypatch.undo()
    records, bad = decode((tmp_path / "usage.jsonl").read_bytes())
    assert ([one.id for one in records], bad) == (["r0", "r1"], 0)


def test_a_disk_that_stays_full_drops_the_oldest_and_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "QUEUE", 3)
    store = Store(tmp_path / "file" / "usage")
    (tmp_path / "file").write_text("not a folder")
    for n in range(5):
        store.add(record(n))
    store.flush()
    assert store.warning is not None
    assert store.dropped == 2
    store.close()


def test_a_disk_that_is_full_and_slow_keeps_no_more_than_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What arrived while a batch was refused counts too."""
    monkeypatch.setattr(store_module, "QUEUE", 3)
    monkeypatch.setattr(store_module, "BATCH_S", 3600.0)
    store = Store(tmp_path)
    for n in range(3):
        store.add(record(n))

    def refuse(data: bytes) -> None:
        for n in (3, 4):
            store.add(record(n))
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(store, "_append", refuse)
        store.flush()
    assert store.dropped == 2
    store.close()
    records, _ = decode((tmp_path / "usage.jsonl").read_bytes())
    assert [one.id for one in records] == ["r2", "r3", "r4"], "the oldest go first"


def test_sums_and_means_know_what_is_unknown() -> None:
    rows = aggregate(
        [
            record(0, prompt_tokens=5, tok_per_sec=10.0),
            record(1, prompt_tokens=None, tok_per_sec=None, error="x"),
            record(2, prompt_tokens=7, tok_per_sec=20.0),
            record(3, model="n"),
        ],
        since=START,
    )
    assert [(row.model, row.requests, row.errors) for row in rows] == [("m", 3, 1), ("n", 1, 0)]
    assert (rows[0].prompt_tokens, rows[0].avg_tok_per_sec) == (12, 15.0)
    assert (rows[1].prompt_tokens, rows[1].avg_tok_per_sec, rows[0].energy_j) == (None, None, None)
    assert aggregate([record(0)], since=START + timedelta(days=1)) == []


def test_a_record_that_can_not_be_written_takes_no_other_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(record(0))
    store.add(record(1, error="lone surrogate \ud800"))
    store.add(record(2))
    store.close()
    records, bad = decode((tmp_path / "usage.jsonl").read_bytes())
    assert ([one.id for one in records], bad) == (["r0", "r2"], 0)
    assert store.dropped == 1


def test_a_torn_line_on_a_full_disk_leaks_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "usage.jsonl").write_bytes(b'{"torn')
    store = Store(tmp_path)

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module.os, "write", full)
    store.add(record(0))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        store.flush()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    monkeypatch.undo()
    store.close()
