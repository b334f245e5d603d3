"""Models, where they can be reached, and how they are loaded."""

from datetime import datetime
from typing import Literal, get_args

import attrs

Capability = Literal["chat", "completion", "embed", "rerank", "vision"]
Wire = Literal[
    "chat",
    "completions",
    "embeddings",
    "rerank",
    "messages",
    "responses",
    "speech",
    "transcriptions",
    "translations",
    "images",
    "image_edits",
]
"""What an endpoint speaks: OpenAI's Chat Completions, Completions, Embeddings and Responses, the
rerank of llama.cpp and Jina, Anthropic's Messages; OpenAI's audio and images, each by itself."""
WIRES: tuple[Wire, ...] = get_args(Wire)
USUAL_WIRES: frozenset[Wire] = frozenset({"chat", "completions", "embeddings"})
ModelState = Literal["unloaded", "loading", "ready", "draining", "failed"]


@attrs.frozen(kw_only=True)
class ModelInfo:
    """One model as a backend lists it, with what the manager knows of its life.

    A backend fills the first part; `state` and what follows it belong to the
    manager. But a backend says `ready` of a model that is there without
    Cerberus: served elsewhere, or loaded by others at its server.
    """

    id: str
    """Unique over all backends: `backend/name`."""
    backend: str
    name: str
    local: bool = True
    """Runs on this machine (or one of ours): no prompt leaves for a provider."""
    managed: bool = True
    """Cerberus loads and unloads it. False for an endpoint that is simply there."""
    size_mib: int | None = None
    """Weights on disk, projector included."""
    ctx: int | None = None
    """Longest context in tokens that the model was trained for, or the engine's."""
    capabilities: frozenset[Capability] = frozenset({"chat", "completion"})
    problem: str | None = None
    """Why the model can't be used (a broken file, say); None for a good one."""
    detail: str | None = None
    """A few words for lists: quantisation, parameters, format."""

    state: ModelState = "unloaded"
    failure: str | None = None
    """Why the last load failed or the engine was lost, while `state` is failed."""
    progress: float | None = None
    """0 to 1 while loading, if the engine tells."""
    eta_s: float | None = None
    """Seconds until it is loaded, from earlier loads; waiting for memory is not in it."""
    waits_for: tuple[str, ...] = ()
    """Models in use, or held for a session, that its load waits for."""
    queued: int = 0
    """Requests that wait for it."""
    loaded_ctx: int | None = None
    """Context in tokens that the running engine gives one request."""
    last_used: datetime | None = None
    in_flight: int = 0
    host: str = "local"

    @property
    def loaded(self) -> bool:
        return self.state in ("ready", "draining")


@attrs.frozen(kw_only=True)
class Endpoint:
    """Where a loaded model answers. `headers` may hold a key: never logged."""

    base_url: str
    """Ends in `/v1`, without a slash after it."""
    model: str
    """The id that the far side expects."""
    headers: dict[str, str] = attrs.field(factory=dict, repr=False)
    local: bool = True
    backend: str
    ctx: int | None = None
    """Context in tokens for one request, where known."""
    wires: frozenset[Wire] = USUAL_WIRES
    """What can be asked of it; the gateway translates for clients that speak something else."""
    system_first: bool = False
    """A system message anywhere but at the beginning is refused there, or lost."""
    stream_to_cancel: bool = False
    """Always ask for a stream: the engine notices a client that left only while it streams,
    or its whole answers tell nothing of their speed. A whole answer is made of the pieces.
    """


@attrs.frozen(kw_only=True)
class LoadPlan:
    """How to load a model. None leaves the choice to the backend's settings."""

    context: int | None = None
    """Tokens of context for each request."""
    parallel: int | None = None
    """Requests that the engine answers at the same time."""
    cache_type_k: str | None = None
    """How keys are kept in the cache: `f16`, `q8_0`, `q4_0` …"""
    cache_type_v: str | None = None
    gpu_layers: int | None = None
    """Layers on the GPUs."""
    tensor_split: tuple[float, ...] | None = None
    """Shares of the GPUs, in their order."""
    main_gpu: int | None = None
    """Number of the GPU that holds what isn't split."""
    devices: tuple[str, ...] | None = None
    """Devices to use, as the engine calls them (`CUDA0`)."""
    draft: str | None = None
    """The small model that guesses ahead: the name of another model of the same backend."""
    draft_tokens: int | None = None
    """Tokens that it guesses at most at a time."""
    chat_template: str | None = None
    """The file of the Jinja template that makes a prompt of a chat, for the model's own."""
    extra_args: tuple[str, ...] | None = None
    """More arguments for the engine, in its own words."""

    def asked(self) -> dict[str, object]:
        """What is not left to the backend."""
        values = {field.name: getattr(self, field.name) for field in attrs.fields(LoadPlan)}
        return {name: value for name, value in values.items() if value is not None}


@attrs.frozen(kw_only=True)
class Estimate:
    """What a loaded model is expected to take, in MiB."""

    weights_mib: int
    cache_mib: int = 0
    """Keys and values of all contexts."""
    extra_mib: int = 0
    """Buffers to compute in, and the engine itself."""
    on_gpu: bool = True
    """Goes to the GPUs where there are any."""

    @property
    def total_mib(self) -> int:
        return self.weights_mib + self.cache_mib + self.extra_mib


@attrs.frozen(kw_only=True)
class LoadProgress:
    """A sign of life of a load: any one puts off the stall limit."""

    fraction: float | None = None
    """0 to 1, where the engine tells."""


@attrs.frozen
class Gone:
    """Why a loaded model is not there any more."""

    why: str
    crashed: bool = True
    """Its engine ended. False: its server took it out of memory, as it sees fit."""


@attrs.frozen(kw_only=True)
class PullProgress:
    """State of a download, in bytes. `total` is None while unknown."""

    file: str
    done: int
    total: int | None = None


@attrs.frozen(kw_only=True)
class Problem:
    """Why a backend's models could not be listed, and what to do."""

    backend: str
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        line = f"{self.backend}: {self.what}"
        return f"{line}. {self.hint}" if self.hint else line


@attrs.frozen(kw_only=True)
class Availability:
    """Whether a backend can work here, and what to do if it can't."""

    ok: bool
    detail: str | None = None
    hint: str | None = None
    warnings: tuple[str, ...] = ()
    """What is wrong in its settings although it works: a folder that isn't there, say."""


@attrs.frozen(kw_only=True)
class PoolInfo:
    """One memory: `host`, or a GPU's. In MiB."""

    name: str
    total_mib: int
    free_mib: int
    budget_mib: int
    """What all models together may take of it."""


@attrs.frozen(kw_only=True)
class PoolUse(PoolInfo):
    taken_mib: int
    """What the models in it take, as far as known."""


@attrs.frozen(kw_only=True)
class Eviction:
    """A model that has to leave, or had to."""

    model: str
    why: str


@attrs.frozen(kw_only=True)
class Fit:
    """Whether a model could be loaded into this machine's memory now."""

    says: Literal["loaded", "yes", "after", "waits", "oversize", "no", "unknown"]
    """`after`: once `others` have left. `waits`: for `others`, which are in use. `oversize`:
    larger than the memory, and loaded all the same as the settings want it."""
    takes_mib: int | None = None
    """What it takes or is expected to; None where nobody knows."""
    others: list[str] = attrs.field(factory=list)
    short_mib: int | None = None
    """What is missing even with every other model unloaded; None where nothing is, or rules
    forbid it."""
    why: str | None = None
    """Why it can't be loaded, where it can't."""


@attrs.frozen(kw_only=True)
class Plan:
    """What loading a model would take and do."""

    model: str
    loaded: bool
    footprint: dict[str, int]
    """MiB by pool; empty where unknown."""
    source: Literal["learned", "estimated", "unknown"]
    load_s: float | None
    """What earlier loads took, in seconds."""
    evict: list[Eviction]
    waits_for: list[str]
    """Models in use that stand in the way."""
    missing: dict[str, int]
    why: str | None
    """Why it can't be loaded, where it can't."""
    pools: list[PoolInfo]
