"""What LM Studio's answers say. Pure; rows and fields that make no sense are left out."""

import math
import re
from collections.abc import Mapping
from typing import Any

import attrs

from cerberus_core.values import Capability

MIB = 1 << 20
_UNITS = {"KIB": 1 / 1024, "MIB": 1.0, "GIB": 1024.0, "TIB": 1048576.0}
_UNITS |= {"KB": 1e3 / MIB, "MB": 1e6 / MIB, "GB": 1e9 / MIB, "TB": 1e12 / MIB}


@attrs.frozen(kw_only=True)
class Instance:
    """A model in memory; one may be there several times."""

    id: str
    ctx: int | None = None


@attrs.frozen(kw_only=True)
class Listed:
    """A model as any of the APIs lists it."""

    key: str
    size: int | None = None
    """Bytes."""
    ctx: int | None = None
    detail: str | None = None
    capabilities: frozenset[Capability] = frozenset({"chat", "completion"})
    instances: tuple[Instance, ...] = ()


def listed_v1(answer: Mapping[str, Any]) -> list[Listed] | None:
    """`GET /api/v1/models` (rest/list.md); None where it is no such list."""
    rows = answer.get("models")
    if not isinstance(rows, list):
        return None
    found: dict[str, Listed] = {}
    for row in rows:
        key = _name(row, "key")
        if key is None:
            continue
        able = row.get("capabilities")
        vision = isinstance(able, dict) and able.get("vision") is True
        quant = row.get("quantization")
        quant = quant.get("name") if isinstance(quant, dict) else None
        found.setdefault(
            key,
            Listed(
                key=key,
                size=_count(row.get("size_bytes")),
                ctx=_count(row.get("max_context_length")),
                detail=_detail(row.get("params_string"), quant, row.get("format")),
                capabilities=_capabilities(row.get("type"), vision),
                instances=_instances(row.get("loaded_instances")),
            ),
        )
    return list(found.values())


def listed_v0(answer: Mapping[str, Any]) -> list[Listed] | None:
    """`GET /api/v0/models` (rest/endpoints.md); None where it is no such list.

    It has no sizes, and a loaded model's id is its instance's.
    """
    rows = answer.get("data")
    if not isinstance(rows, list):
        return None
    found: dict[str, Listed] = {}
    for row in rows:
        key = _name(row, "id")
        if key is None:
            continue
        instance = Instance(id=key, ctx=_count(row.get("loaded_context_length")))
        found.setdefault(
            key,
            Listed(
                key=key,
                ctx=_count(row.get("max_context_length")),
                detail=_detail(row.get("quantization"), row.get("compatibility_type")),
                capabilities=_capabilities(row.get("type"), row.get("type") == "vlm"),
                instances=(instance,) if row.get("state") == "loaded" else (),
            ),
        )
    return list(found.values())


def estimated_mib(text: str) -> int | None:
    """The total of `lms load --estimate-only`, in MiB; None where no line tells it."""
    total = None
    for line in text.splitlines():
        match = re.search(r"total memory\D*?([\d.,]+)\s*([KMGT]i?B)", line, re.IGNORECASE)
        if match:
            number = float(match[1].replace(",", ""))
            total = math.ceil(number * _UNITS[match[2].upper()])
    return total


def to_mib(size: int) -> int:
    """Bytes as MiB, rounded up."""
    return math.ceil(size / MIB)


def _name(row: object, key: str) -> str | None:
    name = row.get(key) if isinstance(row, dict) else None
    good = isinstance(name, str) and 0 < len(name) <= 256 and name.isprintable()
    # To `lms` it is an argument.
    return name if good and not str(name).startswith("-") else None


def _count(value: object) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 60
    return value if good and isinstance(value, int) else None


def _detail(*told: object) -> str | None:
    return " ".join(word for word in told if isinstance(word, str) and word) or None


def _capabilities(kind: object, vision: bool) -> frozenset[Capability]:
    if kind in ("embedding", "embeddings"):
        return frozenset({"embed"})
    usual: frozenset[Capability] = frozenset({"chat", "completion"})
    return usual | {"vision"} if vision else usual


def _instances(told: object) -> tuple[Instance, ...]:
    found = []
    for row in told if isinstance(told, list) else []:
        name = _name(row, "id")
        if name is not None:
            config = row.get("config")
            ctx = _count(config.get("context_length")) if isinstance(config, dict) else None
            found.append(Instance(id=name, ctx=ctx))
    return tuple(found)
