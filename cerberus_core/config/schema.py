"""Every setting of the core with its default. What isn't built is absent.

Durations are seconds (`_s`), sizes MiB (`_mib`).
"""

from typing import Any

import attrs

from . import rules
from .quick import HOST, PORT
from .rules import WrongValue

CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""Of keys and values, as ggml calls them."""


@attrs.frozen(kw_only=True)
class ServerConfig:
    """Where the daemon listens and who may talk to it."""

    host: str = attrs.field(
        default=HOST, validator=rules.word("a host name or address, such as 127.0.0.1")
    )
    port: int = attrs.field(default=PORT, validator=rules.port())
    token: str | None = attrs.field(default=None, validator=rules.token(), repr=False)
    """The bearer token; generated at the first start (`ensure_token`)."""
    public_url: str | None = attrs.field(default=None, validator=rules.url())
    """How the daemon is reached from elsewhere, for links and the Host check."""
    allowed_hosts: list[str] = attrs.field(factory=list, validator=rules.host_names())
    """Further names that the Host header may carry."""


@attrs.frozen(kw_only=True)
class GatewayConfig:
    hold_s: float = attrs.field(default=5.0, validator=rules.seconds(zero="not at all"))
    """How long headers are held while a model loads, so that a failure is a real 5xx."""
    keepalive_s: float = attrs.field(default=10.0, validator=rules.seconds(least=0.1))
    """Time between the comments that keep a waiting stream open; at least 0.1."""
    body_limit_mib: int = attrs.field(default=64, validator=rules.count())
    silence_s: float = attrs.field(default=300.0, validator=rules.seconds(zero="no limit"))
    """Limit on the total silence of an engine or endpoint, before and between its bytes."""
    cors_origins: list[str] = attrs.field(factory=list, validator=rules.origins())
    """Pages of these origins may use `/v1` with a key."""


@attrs.frozen(kw_only=True)
class EnginesConfig:
    ttl_s: float = attrs.field(default=600.0, validator=rules.seconds(zero="never"))
    """A model that was idle for so long is unloaded."""
    list_ttl_s: float = attrs.field(default=5.0, validator=rules.seconds(zero="no caching"))
    """How long a backend's list of models is kept."""
    max_loaded: int | None = attrs.field(default=None, validator=rules.count())
    """Models in memory at the same time; unset: as many as fit."""
    memory_mib: int | None = attrs.field(default=None, validator=rules.count())
    """What all models together may take of this machine's memory; unset: nine tenths of it."""
    max_wait_s: float = attrs.field(default=30.0, validator=rules.seconds(zero="at once"))
    """How long a load waits for models in use before they take no new requests."""
    session_hold_s: float = attrs.field(default=20.0, validator=rules.seconds(zero="not at all"))
    """A model that a session's request used waits so long for its next turn before it leaves
    for another model. Others leave first; nobody waits longer than `max_wait_s` for it."""
    queue_limit: int = attrs.field(default=512, validator=rules.count())
    """Requests that may wait for one model; more are refused with 429."""


@attrs.frozen(kw_only=True)
class GPUConfig:
    active_interval_ms: int = attrs.field(default=500, validator=rules.count(least=50))
    """Time between two readings of GPUs and energy meters while a local model answers."""
    idle_interval_ms: int = attrs.field(default=5000, validator=rules.count(least=50))
    """A reading that is older is renewed when somebody asks; nobody asks, nobody reads."""


@attrs.frozen(kw_only=True)
class EnergyConfig:
    price_per_kwh: float | None = attrs.field(default=None, validator=rules.price())
    """What electricity costs; unset: energy is shown without a price."""
    currency: str = attrs.field(
        default="EUR", validator=rules.word("a sign or code, such as EUR or $")
    )


@attrs.frozen(kw_only=True)
class UsageConfig:
    keep: int = attrs.field(default=1000, validator=rules.count())
    """Records kept in memory."""
    rotate_mib: int = attrs.field(default=64, validator=rules.count())
    prompts_days: int = attrs.field(default=30, validator=rules.count())
    """How long prompts of keys that ask for it are kept."""
    prompts_mib: int = attrs.field(default=256, validator=rules.count())
    """What they take at most; the oldest are deleted first."""


@attrs.frozen(kw_only=True)
class ModelSettings:
    """`[models."backend/name"]`; None leaves the general setting in force."""

    ttl_s: float | None = attrs.field(default=None, validator=rules.seconds(zero="never"))
    aliases: list[str] = attrs.field(
        factory=list, validator=rules.words("a list of names without spaces, none empty")
    )
    context: int | None = attrs.field(default=None, validator=rules.count())
    """Tokens of context for each request."""
    parallel: int | None = attrs.field(default=None, validator=rules.count())
    """Requests that the engine answers at the same time."""
    cache_type_k: str | None = attrs.field(default=None, validator=rules.one_of(*CACHE_TYPES))
    """How keys are kept in the cache: fewer bits take less memory."""
    cache_type_v: str | None = attrs.field(default=None, validator=rules.one_of(*CACHE_TYPES))
    gpu_layers: int | None = attrs.field(default=None, validator=rules.count(least=0))
    """Layers on the GPUs."""
    tensor_split: list[float] | None = attrs.field(default=None, validator=rules.shares())
    """Shares of the GPUs, in their order."""
    main_gpu: int | None = attrs.field(default=None, validator=rules.count(least=0))
    """The GPU that holds what isn't split."""
    devices: list[str] | None = attrs.field(
        default=None, validator=rules.words('a list of devices, such as ["CUDA0"]')
    )
    """Devices to use, as the engine calls them."""
    draft: str | None = attrs.field(
        default=None, validator=rules.text("the name of a small model of the same backend")
    )
    """A small model that guesses ahead."""
    draft_tokens: int | None = attrs.field(default=None, validator=rules.count())
    """Tokens that it guesses at most at a time."""
    chat_template: str | None = attrs.field(
        default=None, validator=rules.text("the path of a file with a Jinja template")
    )
    """The template that makes a prompt of a chat, for the model's own."""
    extra_args: list[str] | None = attrs.field(
        default=None, validator=rules.texts('a list of arguments, such as ["--flag", "value"]')
    )
    """More arguments for the engine of this model."""
    concurrency: int | None = attrs.field(default=None, validator=rules.count())
    """Requests that are passed on at the same time; the others wait their turn."""
    pinned: bool = False
    """Never leaves for another model."""
    preload: bool = False
    """Loaded when the daemon starts."""
    group: str | None = attrs.field(default=None, validator=rules.word("the name of a group"))
    """Lives with models of the same group alone."""
    exclusive: bool = False
    """Lives alone."""
    defaults: dict[str, Any] = attrs.field(factory=dict, validator=rules.parameters())
    """Parameters of a request, such as temperature, where it does not name them itself."""
    forced: dict[str, Any] = attrs.field(factory=dict, validator=rules.parameters())
    """Parameters that every request to it has, whatever it says."""
    text_calls: bool = False
    """Tool calls that it writes into its text are told as calls."""
    fallbacks: list[str] = attrs.field(
        factory=list, validator=rules.texts('a list of models, such as ["ollama/qwen3:4b"]')
    )
    """Models that answer in its place where it can't, in this order."""
    patience_s: float | None = attrs.field(default=None, validator=rules.seconds(zero="at once"))
    """A request waits so long for it to load, or for its turn, before a fallback is asked."""
    oversize: bool = False
    """Loaded though it is larger than the memory there is: pages come from disk as needed."""


@attrs.frozen(kw_only=True)
class ModelPrice:
    """`[prices."provider/model"]`, or a pattern: money for a million tokens; unset: unknown."""

    input: float | None = attrs.field(default=None, validator=rules.price())
    output: float | None = attrs.field(default=None, validator=rules.price())
    cached: float | None = attrs.field(default=None, validator=rules.price())
    """Of the prompt, what the provider had in its cache; unset: as `input`."""


@attrs.frozen(kw_only=True)
class Config:
    default_model: str | None = attrs.field(
        default=None, validator=rules.word("the name of a model, such as llamacpp/qwen")
    )
    strict_plugins: bool = False
    """A plugin that can't be loaded stops the start (for CI)."""
    blocked_plugins: list[str] = attrs.field(
        factory=list, validator=rules.words("a list of plugin names")
    )
    server: ServerConfig = attrs.field(factory=ServerConfig)
    gateway: GatewayConfig = attrs.field(factory=GatewayConfig)
    engines: EnginesConfig = attrs.field(factory=EnginesConfig)
    gpu: GPUConfig = attrs.field(factory=GPUConfig)
    energy: EnergyConfig = attrs.field(factory=EnergyConfig)
    usage: UsageConfig = attrs.field(factory=UsageConfig)
    models: dict[str, ModelSettings] = attrs.field(factory=dict)
    prices: dict[str, ModelPrice] = attrs.field(factory=dict)
    plugins: dict[str, dict[str, Any]] = attrs.field(factory=dict, repr=False)
    """As written; each plugin's own class gives them their types. May hold keys."""

    @models.validator
    def _one_model_per_alias(self, _attribute: Any, models: dict[str, ModelSettings]) -> None:
        owners: dict[str, str] = {}
        for name, settings in models.items():
            for alias in settings.aliases:
                if owners.setdefault(alias, name) != name:
                    raise WrongValue(
                        ("models", name, "aliases"),
                        settings.aliases,
                        f"names of its own; {alias!r} is an alias of {owners[alias]!r} as well",
                    )
