"""What became of one plugin at start."""

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class PluginReport:
    """One line of `cerberus plugins`."""

    name: str
    state: Literal["loaded", "failed", "blocked"]
    distribution: str | None = None
    version: str | None = None
    provides: tuple[str, ...] = ()
    """What it registered, such as `backend llamacpp`."""
    problem: str | None = None
    hint: str | None = None
