"""JSON Lines in and out, and sums over records. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from cerberus_core.values import Aggregate, KeyAggregate, Record

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)

N = TypeVar("N", int, float)


def encode(records: Iterable[Record]) -> bytes:
    """One line for each record."""
    return _encoder.encode_lines(records)


def decode(data: bytes) -> tuple[list[Record], int]:
    """The records in `data`, and how many lines were no record.

    A torn line, garbage or a line from a future version costs that line alone.
    """
    records: list[Record] = []
    bad = 0
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            record = _decoder.decode(line)
            if record.time.tzinfo is None:
                bad += 1  # not a line of ours, and not comparable
            else:
                records.append(record)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            bad += 1
    return records, bad


def aggregate(records: Iterable[Record], since: datetime) -> list[Aggregate]:
    """One `Aggregate` for each model with a record at or after `since`, busiest first."""
    by_model: dict[str, list[Record]] = {}
    for record in records:
        if record.time >= since:
            by_model.setdefault(record.model, []).append(record)
    rows = [_row(model, group) for model, group in by_model.items()]
    return sorted(rows, key=lambda row: (-row.requests, row.model))


def aggregate_keys(records: Iterable[Record], since: datetime) -> list[KeyAggregate]:
    """The same for each gateway key, and for the owner."""
    by_key: dict[str | None, list[Record]] = {}
    for record in records:
        if record.time >= since:
            by_key.setdefault(record.key_id, []).append(record)
    rows = [
        KeyAggregate(key_id=key_id, name=group[-1].client if key_id else None, **_sums(group))
        for key_id, group in by_key.items()
    ]
    return sorted(rows, key=lambda row: (-row.requests, row.key_id or ""))


def _row(model: str, group: list[Record]) -> Aggregate:
    return Aggregate(model=model, **_sums(group))


def _sums(group: list[Record]) -> dict[str, Any]:
    return {
        "requests": len(group),
        "errors": sum(1 for record in group if record.error is not None),
        "prompt_tokens": _sum([record.prompt_tokens for record in group]),
        "completion_tokens": _sum([record.completion_tokens for record in group]),
        "energy_j": _sum([record.energy_j for record in group]),
        "energy_gpu_j": _sum([record.energy_gpu_j for record in group]),
        "energy_cpu_j": _sum([record.energy_cpu_j for record in group]),
        "cost": _sum([record.cost for record in group]),
        "avg_tok_per_sec": _mean([record.tok_per_sec for record in group]),
        "avg_tok_per_j": _mean([record.tok_per_j for record in group]),
        "avg_ttft_ms": _mean([record.ttft_ms for record in group]),
    }


def _sum(values: list[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _mean(values: list[int | None] | list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
