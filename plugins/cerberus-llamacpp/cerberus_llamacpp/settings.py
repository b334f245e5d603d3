"""`[plugins.llamacpp]`."""

from collections.abc import Sequence
from typing import Any

import attrs

_OURS = frozenset(
    {
        "--alias",
        "--api-key",
        "--api-key-file",
        "--ctx-size",
        "--host",
        "--mmproj",
        "--model",
        "--models-dir",
        "--models-preset",
        "--parallel",
        "--port",
        "-a",
        "-c",
        "-m",
        "-mm",
        "-np",
    }
)


def _at_least(low: float) -> Any:
    return attrs.validators.ge(low)


def _texts(instance: object, attribute: "attrs.Attribute[list[str]]", value: list[str]) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{attribute.name} must be a list of strings")


def _not_ours(instance: object, attribute: "attrs.Attribute[list[str]]", value: list[str]) -> None:
    flag = ours_among(value)
    if flag is not None:
        raise ValueError(f"{attribute.name} can't hold {flag}: Cerberus sets it itself")


def ours_among(arguments: Sequence[str]) -> str | None:
    """The first flag among `arguments` that Cerberus sets itself."""
    flags = [argument.partition("=")[0] for argument in arguments]
    return next((flag for flag in flags if flag in _OURS), None)


@attrs.frozen(kw_only=True)
class Settings:
    """How this plugin finds models and runs them. Every one has a default that works."""

    engine: str = attrs.field(
        default="auto", validator=attrs.validators.in_(("auto", "binary", "embedded"))
    )
    """`binary`: a `llama-server`; `embedded`: the engine that comes along; `auto`:
    the binary where one is configured or on PATH, else the embedded one."""
    binary: str | None = None
    """Path of a `llama-server`; None looks on PATH."""
    folders: list[str] = attrs.field(factory=list, validator=_texts)
    """More folders with GGUF files; `~` is understood."""
    context: int = attrs.field(default=4096, validator=_at_least(1))
    """Tokens for each request, at most what the model was trained for."""
    parallel: int = attrs.field(default=2, validator=_at_least(1))
    """Requests that one engine answers at the same time."""
    threads: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_at_least(1))
    )
    """None: one for each physical core but one."""
    gpu_layers: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_at_least(0))
    )
    """Layers on the GPU; None leaves it to the engine (as many as fit)."""
    extra_args: list[str] = attrs.field(
        factory=list, validator=attrs.validators.and_(_texts, _not_ours)
    )
    """More arguments for a `llama-server` binary; the embedded engine takes none."""
    stall_s: float = attrs.field(default=120.0, validator=_at_least(0.1))
    """A load that shows no sign of life for this long (seconds) is given up."""
    stop_grace_s: float = attrs.field(default=10.0, validator=_at_least(0))
    """Seconds between SIGTERM and SIGKILL."""
