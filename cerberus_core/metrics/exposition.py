"""Tallies and a moment, as Prometheus reads them. Pure but for the process's own figures."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from cerberus_core.values import GPU, PoolUse

from .moment import Moment
from .tallies import MAX_MODELS, OTHER, Histogram, ModelTally, Tallies

MIB = 1 << 20
STATES = ("unloaded", "loading", "ready", "draining", "failed")
Row = tuple[list[str], float | None]


def page(tallies: Tallies, moment: Moment, accept: str = "") -> tuple[bytes, str]:
    """(body, content type), in the format that the scraper's `Accept` header wants."""
    registry = CollectorRegistry()
    registry.register(_Families(tallies, moment))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Families(Collector):
    def __init__(self, tallies: Tallies, moment: Moment) -> None:
        self._tallies = tallies
        self._moment = moment

    def collect(self) -> Iterator[Metric]:
        yield from _requests(self._tallies, self._moment)
        yield from _models(self._tallies, self._moment)
        yield from _memory(self._moment)
        yield from _gpus(self._moment)
        yield from _daemon(self._moment)


def _requests(tallies: Tallies, moment: Moment) -> Iterator[Metric]:
    yield _counter(
        "cerberus_requests",
        "Finished requests.",
        ["model", "path", "status"],
        [
            ([model, path, "" if status is None else str(status)], count)
            for (model, path, status), count in tallies.requests.items()
        ],
    )
    models = tallies.models
    for name, key, text in (
        ("prompt", "prompt", "Tokens of prompts, those from a cache included."),
        ("cached", "cached", "Tokens of prompts that came from a cache."),
        ("completion", "completion", "Tokens of answers."),
    ):
        yield _counter(f"cerberus_{name}_tokens", text, ["model"], _sums(models, key))
    yield _counter(
        "cerberus_request_energy_joules",
        "What requests of local models drew above the idle draw.",
        ["model", "kind"],
        [
            ([model, kind], tally.sums.get(kind))
            for model, tally in models.items()
            for kind in ("gpu", "cpu")
        ],
    )
    yield _counter(
        "cerberus_cost",
        "Money for the tokens of clouds, by the price table.",
        ["model", "currency"],
        [([m, moment.currency], t.sums.get("cost")) for m, t in models.items()],
    )
    histograms: list[tuple[str, str, Callable[[ModelTally], Histogram]]] = [
        ("request_duration_seconds", "From a request to its end.", lambda t: t.duration),
        ("time_to_first_token_seconds", "From a request to its first token.", lambda t: t.ttft),
        ("queue_seconds", "What waited for others; the rest is left out.", lambda t: t.queue),
        ("load_wait_seconds", "What waited for a load; the rest is left out.", lambda t: t.load),
        ("decode_tokens_per_second", "How fast answers were written.", lambda t: t.speed),
        ("prefill_tokens_per_second", "How fast prompts were read.", lambda t: t.prefill),
    ]
    for name, text, of in histograms:
        rows = [(model, of(tally)) for model, tally in models.items()]
        yield _histogram(f"cerberus_{name}", text, rows)
    yield _gauge(
        "cerberus_requests_in_flight", "Requests that run or wait.", [], [([], moment.in_flight)]
    )


def _models(tallies: Tallies, moment: Moment) -> Iterator[Metric]:
    managed = [model for model in moment.models if model.managed]
    yield _gauge(
        "cerberus_models_loaded",
        "Models in memory.",
        [],
        [([], sum(model.loaded for model in managed))],
    )
    # Those that Cerberus loads, and those served elsewhere that were ever asked for.
    told = [model for model in moment.models if model.managed or model.id in tallies.models]
    told = told[:MAX_MODELS]
    yield _gauge(
        "cerberus_model_state",
        "1 for the state that a model is in.",
        ["model", "state"],
        [
            ([model.id, state], float(model.state == state))
            for model in told
            if model.managed
            for state in STATES
        ],
    )
    yield _gauge(
        "cerberus_model_requests_in_flight",
        "Requests that a model answers.",
        ["model"],
        [([model.id], model.in_flight) for model in told],
    )
    yield _gauge(
        "cerberus_model_queue_length",
        "Requests that wait for a model.",
        ["model"],
        [([model.id], model.queued) for model in told],
    )
    evictions = list(moment.evictions.items())
    rows = [([model], count) for model, count in evictions[:MAX_MODELS]]
    if rest := sum(count for _, count in evictions[MAX_MODELS:]):
        rows.append(([OTHER], rest))
    yield _counter(
        "cerberus_evictions", "Loads for which this model had to leave.", ["model"], rows
    )


def _memory(moment: Moment) -> Iterator[Metric]:
    gauges: list[tuple[str, str, Callable[[PoolUse], int]]] = [
        ("total", "Memory that there is.", lambda pool: pool.total_mib),
        ("free", "Memory that is free.", lambda pool: pool.free_mib),
        ("budget", "Memory for all models together.", lambda pool: pool.budget_mib),
        ("taken", "Memory of the loaded models, as far as known.", lambda pool: pool.taken_mib),
    ]
    for name, text, of in gauges:
        rows: list[Row] = [([pool.name], of(pool) * MIB) for pool in moment.pools]
        yield _gauge(f"cerberus_memory_{name}_bytes", text, ["pool"], rows)


def _gpus(moment: Moment) -> Iterator[Metric]:
    gpus = moment.gpus.gpus
    yield _gauge(
        "cerberus_gpu_info",
        "Always 1; the labels tell which card it is.",
        ["gpu", "name", "id", "vendor"],
        [([gpu.card, gpu.name, gpu.id, gpu.vendor], 1) for gpu in gpus],
    )
    gauges: list[tuple[str, str, Callable[[GPU], float | None]]] = [
        ("power_watts", "What the card draws.", lambda gpu: gpu.power_w),
        ("power_limit_watts", "What it may draw.", lambda gpu: gpu.power_limit_w),
        ("memory_total_bytes", "Its memory.", lambda gpu: _times(gpu.mem_total_mib, MIB)),
        ("memory_used_bytes", "What is taken of it.", lambda gpu: _times(gpu.mem_used_mib, MIB)),
        ("utilization_ratio", "How busy it is, 0 to 1.", lambda gpu: _times(gpu.util_pct, 0.01)),
        ("temperature_celsius", "How hot it is.", lambda gpu: gpu.temp_c),
    ]
    for name, text, of in gauges:
        rows: list[Row] = [([gpu.card], of(gpu)) for gpu in gpus]
        yield _gauge(f"cerberus_gpu_{name}", text, ["gpu"], rows)
    yield _counter(
        "cerberus_energy_joules",
        "What all cards and CPU packages drew since the start, idle draw included.",
        ["kind"],
        [(["gpu"], moment.gpus.gpu_energy_j), (["cpu"], moment.gpus.cpu_energy_j)],
    )


def _daemon(moment: Moment) -> Iterator[Metric]:
    yield _gauge("cerberus_build_info", "Always 1.", ["version"], [([moment.version], 1)])
    yield _gauge(
        "cerberus_start_time_seconds",
        "When the daemon started, as Unix time.",
        [],
        [([], moment.started_unix)],
    )
    yield _counter(
        "cerberus_usage_records_dropped",
        "Records that never came to the disk.",
        [],
        [([], moment.records_dropped)],
    )
    yield _counter(
        "cerberus_key_refusals",
        "Times that a gateway key was refused.",
        ["key", "code"],
        [([name, code], count) for (name, code), count in moment.refusals.items()],
    )


def _sums(models: dict[str, ModelTally], key: str) -> list[Row]:
    return [([model], tally.sums.get(key)) for model, tally in models.items()]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


# What is unknown (None) has no line.


def _counter(name: str, text: str, labels: list[str], rows: Iterable[Row]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family


def _gauge(name: str, text: str, labels: list[str], rows: Iterable[Row]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family


def _histogram(name: str, text: str, rows: Iterable[tuple[str, Histogram]]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=["model"])
    for model, histogram in rows:
        if any(histogram.counts):
            bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
            buckets = list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))
            family.add_metric([model], buckets, sum_value=histogram.sum)
    return family
