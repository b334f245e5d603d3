"""What one request cost, while it runs and afterwards."""

from datetime import datetime

import attrs
import msgspec

from .gpu import EnergyMark


@attrs.frozen(kw_only=True)
class Tried:
    """A model that was asked first and did not answer."""

    model: str
    why: str


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One finished request, one line in the usage log. No prompt is in it."""

    id: str
    time: datetime
    """When the request arrived (UTC)."""
    model: str
    asked: str | None = None
    """The name by which the client asked; None where it is the model's own."""
    backend: str | None = None
    client: str | None = None
    """Name of the gateway key, else the user agent."""
    key_id: str | None = None
    """Of the gateway key; None: the owner's token."""
    session_id: str | None = None
    local: bool | None = None
    path: str = "/v1/chat/completions"
    stream: bool = False
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_counted: bool = False
    """The engine told no usage: `completion_tokens` counts the pieces that were relayed."""
    queue_ms: int | None = None
    """Time it waited for other requests, or for models that had to leave; None: it did not."""
    load_ms: int | None = None
    """Time it waited for its model to load; None when it was there."""
    evicted: tuple[str, ...] = ()
    """Models that left memory for it."""
    tried: tuple[Tried, ...] = ()
    """Models that gave way to this one, in their order."""
    ttft_ms: int | None = None
    duration_ms: int | None = None
    tok_per_sec: float | None = None
    prefill_tok_per_sec: float | None = None
    """How fast the prompt was read, where the engine tells; cached tokens are not in it."""
    energy_j: float | None = None
    """Of GPUs and CPU together, above what they draw idle, as far as known."""
    energy_gpu_j: float | None = None
    energy_cpu_j: float | None = None
    energy: EnergyMark | None = None
    """How the energy was got; None where it is unknown."""
    tok_per_j: float | None = None
    """Completion tokens by `energy_j`."""
    cost: float | None = None
    """Money for the tokens of a cloud, by the price table; None where the price is unknown."""
    status: int | None = None
    """What the client was told; 499 when it left first."""
    error: str | None = None
    host: str = "local"


@attrs.frozen(kw_only=True)
class LiveRequest:
    """A request that is being answered."""

    id: str
    time: datetime
    model: str
    client: str | None = None
    stream: bool = False
    phase: str = "waiting"
    """waiting (for its model), prefill, or decode."""
    pieces: int = 0
    """Stream pieces relayed so far, about one token each."""


@attrs.frozen(kw_only=True)
class Sums:
    """Sums and means over records; None where no record knew."""

    requests: int = 0
    errors: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    energy_j: float | None = None
    energy_gpu_j: float | None = None
    energy_cpu_j: float | None = None
    cost: float | None = None
    avg_tok_per_sec: float | None = None
    avg_tok_per_j: float | None = None
    avg_ttft_ms: float | None = None


@attrs.frozen(kw_only=True)
class Aggregate(Sums):
    """Of one model."""

    model: str


@attrs.frozen(kw_only=True)
class KeyAggregate(Sums):
    """Of one gateway key; `key_id` None: of the owner."""

    key_id: str | None
    name: str | None
    """What it was called last."""
