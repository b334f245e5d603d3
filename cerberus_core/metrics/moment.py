"""What is so now, beside what was counted."""

from collections.abc import Mapping, Sequence

import attrs

from cerberus_core.values import GPUSnapshot, ModelInfo, PoolUse


@attrs.frozen(kw_only=True)
class Moment:
    """The facts that a page of metrics holds beside the tallies."""

    version: str
    started_unix: float
    currency: str
    in_flight: int
    models: Sequence[ModelInfo]
    pools: Sequence[PoolUse]
    gpus: GPUSnapshot
    evictions: Mapping[str, int]
    """By the model that left."""
    refusals: Mapping[tuple[str, str], int]
    """By a gateway key's name ("" where it is unknown) and the error's code."""
    records_dropped: int
