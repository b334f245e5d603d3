"""The configuration as anybody may see it."""

from typing import Any

import attrs

from .schema import Config
from .secrecy import masked


def public(config: Config) -> dict[str, Any]:
    """JSON-able; each secret, of plugins too, is "set" or None."""
    shown: dict[str, Any] = masked(attrs.asdict(config))
    return shown
