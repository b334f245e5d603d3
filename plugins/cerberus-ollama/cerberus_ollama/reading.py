"""What Ollama's answers say. Pure; rows and fields that make no sense are left out."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs

from cerberus_core.values import Capability

MIB = 1 << 20
KEEP_FOR = timedelta(days=1)
"""A model that Ollama would drop sooner is not kept by us any more."""


@attrs.frozen(kw_only=True)
class Installed:
    """A row of `GET /api/tags`."""

    name: str
    digest: str = ""
    size: int | None = None
    detail: str | None = None
    capabilities: frozenset[Capability] | None = None
    """None: not told there."""
    remote: bool = False
    """It runs in a cloud, whatever Ollama's own address is."""


@attrs.frozen(kw_only=True)
class Loaded:
    """A row of `GET /api/ps`, in bytes."""

    name: str
    size: int | None = None
    size_vram: int | None = None
    ctx: int | None = None
    expires_at: datetime | None = None

    def taken(self) -> dict[str, int] | None:
        """MiB of the host's memory and of the GPUs' together; None where it isn't told."""
        if self.size is None:
            return None
        gpu = min(self.size_vram or 0, self.size)
        parts = {"host": to_mib(self.size - gpu), "gpu": to_mib(gpu)}
        return {name: mib for name, mib in parts.items() if mib}

    def leaves_soon(self, now: datetime) -> bool:
        """Whether somebody gave it a term, or Ollama loaded it anew by itself."""
        return self.expires_at is not None and self.expires_at - now < KEEP_FOR


@attrs.frozen(kw_only=True)
class Facts:
    """What `POST /api/show` says of a model."""

    ctx: int | None = None
    capabilities: frozenset[Capability] | None = None
    cache_bytes_per_token: int | None = None
    """Keys and values at 16 bits; None where its shape isn't told."""
    num_ctx: int | None = None
    """The context that its Modelfile asks for."""


def installed(answer: Mapping[str, Any]) -> list[Installed]:
    """The rows of `/api/tags` that have a name, each name once."""
    found: dict[str, Installed] = {}
    for row in _rows(answer):
        name = _name(row)
        if name is None:
            continue
        details = row.get("details")
        found.setdefault(
            name,
            Installed(
                name=name,
                digest=row["digest"] if isinstance(row.get("digest"), str) else "",
                size=_count(row.get("size")),
                detail=_detail(details if isinstance(details, dict) else {}),
                capabilities=_capabilities(row.get("capabilities")),
                remote=bool(row.get("remote_host") or row.get("remote_model")),
            ),
        )
    return list(found.values())


def loaded(answer: Mapping[str, Any]) -> dict[str, Loaded]:
    """The rows of `/api/ps` by name."""
    found = {}
    for row in _rows(answer):
        name = _name(row)
        if name is not None:
            found[name] = Loaded(
                name=name,
                size=_count(row.get("size")),
                size_vram=_count(row.get("size_vram")),
                ctx=_count(row.get("context_length")) or None,
                expires_at=_time(row.get("expires_at")),
            )
    return found


def facts(answer: Mapping[str, Any]) -> Facts:
    """What `/api/show` says."""
    info = answer.get("model_info")
    info = info if isinstance(info, dict) else {}
    arch = info.get("general.architecture")

    def number(key: str) -> int | None:
        return _count(info.get(f"{arch}.{key}")) or None

    layers, heads = number("block_count"), number("attention.head_count")
    width, kv_heads = number("embedding_length"), number("attention.head_count_kv")
    key = number("attention.key_length") or (width // heads if width and heads else None)
    value = number("attention.value_length") or key
    per_token = None
    if layers and key and value and (kv_heads or heads):
        per_token = layers * (kv_heads or heads or 0) * (key + value) * 2
    return Facts(
        ctx=number("context_length"),
        capabilities=_capabilities(answer.get("capabilities")),
        cache_bytes_per_token=per_token,
        num_ctx=_num_ctx(answer.get("parameters")),
    )


def same_model(ref: str, name: str) -> bool:
    """Whether a reference that was pulled is this name: no tag means `latest`."""

    def full(text: str) -> str:
        last = text.rpartition("/")[2]
        return text.lower() if ":" in last else f"{text.lower()}:latest"

    return full(ref) == full(name)


def to_mib(size: int) -> int:
    """Bytes as MiB, rounded up."""
    return math.ceil(size / MIB)


def _rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = answer.get("models")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _name(row: Mapping[str, Any]) -> str | None:
    name = row.get("model") or row.get("name")
    good = isinstance(name, str) and 0 < len(name) <= 256 and name.isprintable()
    return name if good else None


def _count(value: object) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60
    return value if good and isinstance(value, int) else None


def _detail(details: Mapping[str, Any]) -> str | None:
    words = [details.get(key) for key in ("parameter_size", "quantization_level", "format")]
    return " ".join(word for word in words if isinstance(word, str) and word) or None


def _capabilities(told: object) -> frozenset[Capability] | None:
    if not isinstance(told, list) or not told:
        return None
    able: set[Capability] = set()
    if "completion" in told:
        able |= {"chat", "completion"}
    if "vision" in told:
        able.add("vision")
    if "embedding" in told:
        able.add("embed")
    return frozenset(able)


def _num_ctx(parameters: object) -> int | None:
    for line in parameters.splitlines() if isinstance(parameters, str) else []:
        words = line.split()
        if len(words) == 2 and words[0] == "num_ctx" and words[1].isdecimal():
            return int(words[1]) or None
    return None


def _time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
