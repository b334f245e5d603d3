"""What to start, whatever kind of engine starts it."""

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

import attrs
import psutil

from cerberus_core.platform import Child


@attrs.frozen(kw_only=True)
class Launch:
    """One engine for one model."""

    model: Path
    projector: Path | None = None
    alias: str
    """The public id of the model: the engine's answers carry it."""
    context: int
    """Tokens for each request; llama.cpp divides its context by `parallel`."""
    parallel: int
    threads: int
    gpu_layers: int | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    tensor_split: Sequence[float] = ()
    main_gpu: int | None = None
    devices: Sequence[str] = ()
    draft: Path | None = None
    """The model that guesses ahead."""
    draft_tokens: int | None = None
    chat_template: Path | None = None
    """A file; None for the model's own template."""
    extra_args: Sequence[str] = ()
    """For a `llama-server` binary alone, as `devices`."""
    pooling: str | None = None
    """Set for models that embed or rank."""
    log: Path


@attrs.frozen
class Started:
    """A process that was started and is not ready yet."""

    child: Child
    where: Callable[[], Awaitable[str]]
    """Returns its `http://127.0.0.1:PORT` once that is known; else waits for ever."""


class Kind(Protocol):
    """How one kind of engine is started."""

    label: str
    attempts: int
    """How often a start is tried when the port turns out to be taken."""

    async def start(self, launch: Launch, key: str) -> Started:
        """Raises OSError. Cancelled, nothing is left running."""
        ...


def default_threads() -> int:
    """The physical cores that this process may use but one; at least 1.

    llama.cpp's threads spin while they wait for each other: with a thread on
    every core, whatever else runs (the daemon, a browser) slows all of them down.
    """
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed) - 1)
