"""What finished requests add up to. Cheap: fed with every record."""

from bisect import bisect_left
from collections.abc import Callable

from cerberus_core.values import ModelInfo, Record

MAX_MODELS = 500
"""Models that are told apart; later ones are counted together."""
OTHER = "other"
"""What stands for those. Ids hold a slash, so it is no model's."""
UNKNOWN = "unknown"
"""What stands for names that are no model's: a client can send any number of them."""

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
SPEEDS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1000.0)


class Histogram:
    """Values by the bucket they fall into."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """The last one is of values above all bounds."""
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def copy(self) -> "Histogram":
        other = Histogram(self.bounds)
        other.counts = self.counts.copy()
        other.sum = self.sum
        return other


class ModelTally:
    """Of one model. `sums` lacks what no record knew."""

    __slots__ = ("duration", "load", "prefill", "queue", "speed", "sums", "ttft")

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.duration = Histogram(SECONDS)
        self.ttft = Histogram(SECONDS)
        self.queue = Histogram(SECONDS)
        self.load = Histogram(SECONDS)
        self.speed = Histogram(SPEEDS)
        self.prefill = Histogram(SPEEDS)

    def copy(self) -> "ModelTally":
        other = ModelTally()
        other.sums = self.sums.copy()
        for name in ("duration", "ttft", "queue", "load", "speed", "prefill"):
            setattr(other, name, getattr(self, name).copy())
        return other


class Tallies:
    """`add` each record; `copy` is what a thread may read."""

    def __init__(self, listed: Callable[[str], ModelInfo | None] = lambda _: None) -> None:
        """`listed`: the model of a name, where there is one."""
        self.requests: dict[tuple[str, str, int | None], int] = {}
        """By model, path and status."""
        self.models: dict[str, ModelTally] = {}
        self._listed = listed

    def add(self, record: Record) -> None:
        """Count one record."""
        model = self._label(record)
        key = (model, record.path, record.status)
        self.requests[key] = self.requests.get(key, 0) + 1
        tally = self.models.get(model)
        if tally is None:
            tally = self.models[model] = ModelTally()
        sums = tally.sums
        if record.prompt_tokens is not None:
            sums["prompt"] = sums.get("prompt", 0) + record.prompt_tokens
        if record.cached_tokens is not None:
            sums["cached"] = sums.get("cached", 0) + record.cached_tokens
        if record.completion_tokens is not None:
            sums["completion"] = sums.get("completion", 0) + record.completion_tokens
        if record.energy_gpu_j is not None:
            sums["gpu"] = sums.get("gpu", 0) + record.energy_gpu_j
        if record.energy_cpu_j is not None:
            sums["cpu"] = sums.get("cpu", 0) + record.energy_cpu_j
        if record.cost is not None:
            sums["cost"] = sums.get("cost", 0) + record.cost
        if record.duration_ms is not None:
            tally.duration.add(record.duration_ms / 1000)
        if record.ttft_ms is not None:
            tally.ttft.add(record.ttft_ms / 1000)
        if record.queue_ms is not None:
            tally.queue.add(record.queue_ms / 1000)
        if record.load_ms is not None:
            tally.load.add(record.load_ms / 1000)
        if record.tok_per_sec is not None:
            tally.speed.add(record.tok_per_sec)
        if record.prefill_tok_per_sec is not None:
            tally.prefill.add(record.prefill_tok_per_sec)

    def copy(self) -> "Tallies":
        other = Tallies(self._listed)
        other.requests = self.requests.copy()
        other.models = {name: tally.copy() for name, tally in self.models.items()}
        return other

    def _label(self, record: Record) -> str:
        model = record.model
        if model in self.models:
            return model
        if record.backend is None:  # it never came to a model
            listed = self._listed(model)
            if listed is None:
                return UNKNOWN
            model = listed.id
        return model if model in self.models or len(self.models) < MAX_MODELS else OTHER
