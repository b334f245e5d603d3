"""Runs to a table."""

from benchmarks.page import table

from .measure import PACED_CLIENTS, PACED_RATE, Figures, added, medians

HEAD = [
    "",
    "latency added, µs p50/p99",
    "TTFT added, µs p50/p99",
    "requests/s, 32 clients",
    "× nginx",
    "CPU µs/request",
    "× nginx by CPU",
    "× LiteLLM",
    "paced: chunks/s",
    "paced: CPU %",
    "paced: CPU µs/chunk",
    "paced: CPU × pass-through",
    "paced: chunk delay added, ms p50/p99",
    "full speed: chunks/s",
    "RSS MiB idle→loaded",
    "errors",
]
_PACE = PACED_CLIENTS * PACED_RATE
SATURATED_BELOW, SATURATED_ABOVE = 0.98, 90
"""Of the paced chunks that come through in time; of the proxy's core, in per cent."""


def gateway_table(runs: dict[str, list[Figures]], idle_mib: dict[str, float]) -> str:
    return table(HEAD, [_row(name, runs, idle_mib[name]) for name in runs])


def _row(name: str, runs: dict[str, list[Figures]], idle_mib: float) -> list[str]:
    own = medians(runs[name])
    is_direct = name == "direct"
    # The ceiling's own figures stand in its row; the others' are what they add to it.
    over = own if is_direct or "direct" not in runs else added(runs[name], runs["direct"])
    nginx, litellm, passed = (
        medians(runs[other]) if other in runs else None
        for other in ("nginx", "litellm", "cerberus")
    )
    cpu_request = own["many.cpu_us_request"]
    cpu_chunk = own["paced.cpu_us_chunk"]
    cpu_percent = cpu_chunk * _PACE / 1e4
    loaded = max(run[key] for run in runs[name] for key in run if key.endswith("rss_mib"))
    return [
        f"{name} (absolute)" if over is own else name,
        _pair(over, "unary.latency_us"),
        _pair(over, "stream.ttft_us"),
        f"{own['many.per_s']:,.0f}",
        f"{own['many.per_s'] / nginx['many.per_s']:.2f}" if nginx else "–",
        "–" if is_direct else f"{cpu_request:.0f}",
        f"{nginx['many.cpu_us_request'] / cpu_request:.2f}" if nginx and not is_direct else "–",
        f"{own['many.per_s'] / litellm['many.per_s']:.0f}" if litellm else "–",
        _paced(own, cpu_percent),
        "–" if is_direct else f"{cpu_percent:.0f}",
        "–" if is_direct else f"{cpu_chunk:.0f}",
        f"{cpu_chunk / passed['paced.cpu_us_chunk']:.2f}" if passed and not is_direct else "–",
        _pair(over, "paced.delay_us", 1000, 1),
        f"{own['full.chunks_per_s']:,.0f}",
        "–" if is_direct else f"{idle_mib:.0f}→{loaded:.0f}",
        f"{sum(run[key] for run in runs[name] for key in run if key.endswith('.errors')):.0f}",
    ]


def _paced(own: Figures, cpu_percent: float) -> str:
    per_s, clients = own["paced.chunks_per_s"], own["paced.clients"]
    notes = []
    if per_s < SATURATED_BELOW * clients * PACED_RATE or cpu_percent > SATURATED_ABOVE:
        notes.append("saturated")
    if clients != PACED_CLIENTS:
        notes.append(f"{clients:.0f} streams")
    return f"{per_s:,.0f}{' (' + ', '.join(notes) + ')' if notes else ''}"


def _pair(figures: Figures, name: str, divisor: float = 1, digits: int = 0) -> str:
    values = [figures[f"{name}.{quantile}"] / divisor for quantile in ("p50", "p99")]
    return "/".join(f"{value:.{digits}f}" for value in values)
