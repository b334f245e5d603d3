"""Frozen attrs values that the rooms hand each other.

Owns shapes and units, nothing else: no input or output, no defaults from the
configuration. Unknown is `None`, never 0. Validators run wherever a value is
made; converters are avoided because not every decoder runs them.
"""

from .events import Event
from .ids import new_id
from .models import (
    Availability,
    Capability,
    Endpoint,
    Estimate,
    Eviction,
    LoadPlan,
    LoadProgress,
    ModelInfo,
    ModelState,
    Plan,
    PoolInfo,
    Problem,
    PullProgress,
)
from .notices import Notice
from .plugins import PluginReport
from .usage import Aggregate, LiveRequest, Record

__all__ = [
    "Aggregate",
    "Availability",
    "Capability",
    "Endpoint",
    "Estimate",
    "Event",
    "Eviction",
    "LiveRequest",
    "LoadPlan",
    "LoadProgress",
    "ModelInfo",
    "ModelState",
    "Notice",
    "Plan",
    "PluginReport",
    "PoolInfo",
    "Problem",
    "PullProgress",
    "Record",
    "new_id",
]
