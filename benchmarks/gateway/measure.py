"""The scenarios, each on one target, and the CPU that the proxy spent on it."""

from statistics import median
from typing import Any, NamedTuple

from .programs import load
from .targets import Target

PACED_CLIENTS, PACED_RATE, PACED_CHUNKS = 200, 50, 100


class Scenario(NamedTuple):
    name: str
    what: str
    seconds: float
    load: dict[str, Any]


SCENARIOS = [
    Scenario("unary", "1 client, not streamed", 2, {"clients": 1}),
    Scenario("stream", "1 client, 16 chunks", 2, {"clients": 1, "stream": True, "chunks": 16}),
    Scenario("many", "32 clients, not streamed", 4, {"clients": 32}),
    Scenario(
        "paced",
        f"{PACED_CLIENTS} streams of {PACED_CHUNKS} chunks, {PACED_RATE} a second each",
        4,
        {
            "clients": PACED_CLIENTS,
            "stream": True,
            "chunks": PACED_CHUNKS,
            "rate": PACED_RATE,
            "warmup_s": 2,
        },
    ),
    Scenario("full", "4 streams of 128 chunks, no delay", 3,
             {"clients": 4, "stream": True, "chunks": 128}),
]  # fmt: skip

Figures = dict[str, float]


def measured(target: Target, scenario: Scenario, scale: float) -> Figures:
    """The figures of one run, flat: `unary.p50`, `many.cpu_us` …; raises for a run of errors."""
    asked = scenario.load
    if scenario.name == "paced" and target.paced_clients is not None:
        asked = {**asked, "clients": target.paced_clients}
    before = target.cpu_s()
    said = load(
        target.port,
        target.model,
        target.token,
        wire=target.wire,
        seconds=scenario.seconds * scale,
        **asked,
    )
    cpu_us = (target.cpu_s() - before) * 1e6
    if not said["all_requests"]:
        raise RuntimeError(
            f"{target.name}, {scenario.name}: no good answer, {said['errors']} errors; "
            f"the first: {said['complaint'] or 'none'}"
        )
    figures: Figures = {
        "clients": asked["clients"],
        "errors": said["errors"],
        "requests": said["all_requests"],
        "connects": said["connects"],
        "per_s": said["requests_per_s"],
        "chunks_per_s": said["chunks_per_s"],
        "cpu_us_request": cpu_us / said["all_requests"],
    }
    if said["all_chunks"] and scenario.load.get("stream"):
        figures["cpu_us_chunk"] = cpu_us / said["all_chunks"]
    for kind in ("latency_us", "ttft_us", "delay_us"):
        for quantile, value in (said[kind] or {}).items():
            figures[f"{kind}.{quantile}"] = value
    figures["rss_mib"] = target.rss_mib()
    return {f"{scenario.name}.{name}": value for name, value in figures.items()}


def medians(runs: list[Figures]) -> Figures:
    return {name: median(run[name] for run in runs if name in run) for name in runs[0]}


def added(runs: list[Figures], direct: list[Figures]) -> Figures:
    """Medians of what each run took longer than the direct run of the same alternation."""
    pairs = [
        {name: value - base[name] for name, value in run.items() if name in base}
        for run, base in zip(runs, direct, strict=True)
    ]
    return medians(pairs)
