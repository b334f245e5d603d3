"""Frozen attrs values that the rooms hand each other.

Owns shapes and units, nothing else: no input or output, no defaults from the
configuration. Unknown is `None`, never 0. Validators run wherever a value is
made; converters are avoided because not every decoder runs them.
"""

from .events import Event
from .gpu import GPU, EnergyMark, EnergyReading, GPUSnapshot, MeterReport
from .ids import new_id, time_of
from .models import (
    USUAL_WIRES,
    WIRES,
    Availability,
    Capability,
    Endpoint,
    Estimate,
    Eviction,
    Fit,
    Gone,
    LoadPlan,
    LoadProgress,
    ModelInfo,
    ModelState,
    Plan,
    PoolInfo,
    PoolUse,
    Problem,
    PullProgress,
    Wire,
)
from .notices import Notice
from .plugins import PluginReport
from .usage import Aggregate, KeyAggregate, LiveRequest, Record, Sums, Tried

__all__ = [
    "GPU",
    "USUAL_WIRES",
    "WIRES",
    "Aggregate",
    "Availability",
    "Capability",
    "Endpoint",
    "EnergyMark",
    "EnergyReading",
    "Estimate",
    "Event",
    "Eviction",
    "Fit",
    "GPUSnapshot",
    "Gone",
    "KeyAggregate",
    "LiveRequest",
    "LoadPlan",
    "LoadProgress",
    "MeterReport",
    "ModelInfo",
    "ModelState",
    "Notice",
    "Plan",
    "PluginReport",
    "PoolInfo",
    "PoolUse",
    "Problem",
    "PullProgress",
    "Record",
    "Sums",
    "Tried",
    "Wire",
    "new_id",
    "time_of",
]
