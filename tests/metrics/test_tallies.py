"""What records add up to, and how a page of metrics writes it."""

from datetime import UTC, datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families as parse

from cerberus_core.metrics import MAX_MODELS, OTHER, UNKNOWN, Moment, Tallies
from cerberus_core.metrics.exposition import page
from cerberus_core.values import GPU, GPUSnapshot, ModelInfo, PoolUse, Record

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def record(model: str = "up/m", **more: Any) -> Record:
    return Record(id="r", time=NOW, model=model, **{"backend": "up", "status": 200} | more)


def moment(**more: Any) -> Moment:
    usual: dict[str, Any] = {
        "version": "1",
        "started_unix": 1.0,
        "currency": "EUR",
        "in_flight": 0,
        "models": [],
        "pools": [],
        "gpus": GPUSnapshot(time=NOW),
        "evictions": {},
        "refusals": {},
        "records_dropped": 0,
    }
    return Moment(**usual | more)


Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def samples(tallies: Tallies, now: Moment | None = None) -> Samples:
    """name → labels → value."""
    body, _ = page(tallies, now or moment())
    found: Samples = {}
    for family in parse(body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def labels(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


def test_sums_and_buckets_are_those_of_the_records() -> None:
    tallies = Tallies()
    tallies.add(record(prompt_tokens=9, completion_tokens=3, duration_ms=40, energy_gpu_j=2.5))
    tallies.add(record(prompt_tokens=1, cost=0.5, duration_ms=700_000, energy_gpu_j=1.0))
    told = samples(tallies)
    model = labels(model="up/m")
    path = "/v1/chat/completions"
    assert told["cerberus_requests_total"] == {labels(model="up/m", path=path, status="200"): 2}
    assert told["cerberus_prompt_tokens_total"] == {model: 10}
    assert told["cerberus_completion_tokens_total"] == {model: 3}
    assert told["cerberus_cost_total"] == {labels(model="up/m", currency="EUR"): 0.5}
    assert told["cerberus_request_energy_joules_total"] == {labels(model="up/m", kind="gpu"): 3.5}
    buckets = told["cerberus_request_duration_seconds_bucket"]
    assert buckets[labels(model="up/m", le="0.025")] == 0
    assert buckets[labels(model="up/m", le="0.05")] == 1
    assert buckets[labels(model="up/m", le="600.0")] == 1
    assert buckets[labels(model="up/m", le="+Inf")] == 2
    assert told["cerberus_request_duration_seconds_count"] == {model: 2}
    assert told["cerberus_request_duration_seconds_sum"][model] == 700.04


def test_what_no_record_knew_has_no_line() -> None:
    tallies = Tallies()
    tallies.add(record())
    told = samples(tallies)
    for name in told:
        assert not name.startswith(
            ("cerberus_prompt", "cerberus_cost", "cerberus_time", "cerberus_e")
        )
    card = GPU(index=0, id="u", name="A", vendor="amd", power_w=7.0)
    told = samples(tallies, moment(gpus=GPUSnapshot(time=NOW, gpus=(card,), gpu_energy_j=3.0)))
    assert told["cerberus_gpu_power_watts"] == {labels(gpu="amd0"): 7.0}
    assert "cerberus_gpu_temperature_celsius" not in told
    assert told["cerberus_energy_joules_total"] == {labels(kind="gpu"): 3.0}


def test_g33_names_are_labels_as_they_are_and_any_number_of_unknown_ones_is_one() -> None:
    names = ["up/gemma:27b", "up/org/name:Q4_K_M", "up/a b", "up/模型", "up/M", "up/m", 'up/"\\\n']
    listed = {name: ModelInfo(id=name, backend="up", name=name) for name in names}
    tallies = Tallies(listed.get)
    for name in names:
        tallies.add(record(name))
        tallies.add(record(name, backend=None, status=503))
    for number in range(1000):
        tallies.add(record(f"up/nonsense{number}", backend=None, status=404))
    told = samples(tallies, moment(models=list(listed.values())))
    asked = {dict(one)["model"]: 0.0 for one in told["cerberus_requests_total"]}
    for one, count in told["cerberus_requests_total"].items():
        asked[dict(one)["model"]] += count
    assert asked == {**dict.fromkeys(names, 2), UNKNOWN: 1000}
    state = told["cerberus_model_state"]
    assert {dict(one)["model"] for one in state} == set(names)


def test_g33_more_models_than_anybody_looks_at_are_counted_together() -> None:
    tallies = Tallies()
    for number in range(MAX_MODELS + 20):
        tallies.add(record(f"up/{number}", prompt_tokens=1))
    told = samples(tallies)["cerberus_prompt_tokens_total"]
    assert len(told) == MAX_MODELS + 1
    assert told[labels(model=OTHER)] == 20


def test_what_is_so_now() -> None:
    models = [
        ModelInfo(id="a/x", backend="a", name="x", state="ready", in_flight=2, queued=3),
        ModelInfo(id="a/y", backend="a", name="y", state="failed"),
        ModelInfo(id="c/z", backend="c", name="z", managed=False, state="ready"),
    ]
    pool = PoolUse(name="host", total_mib=4, free_mib=3, budget_mib=2, taken_mib=1)
    told = samples(
        Tallies(),
        moment(
            models=models,
            pools=[pool],
            evictions={"a/y": 4},
            refusals={("", "unauthenticated"): 1, ("laptop", "limit_reached"): 5},
            records_dropped=6,
            in_flight=5,
        ),
    )
    assert told["cerberus_models_loaded"] == {(): 1}
    assert told["cerberus_requests_in_flight"] == {(): 5}
    assert told["cerberus_model_queue_length"] == {labels(model="a/x"): 3, labels(model="a/y"): 0}
    assert told["cerberus_model_requests_in_flight"][labels(model="a/x")] == 2
    states = told["cerberus_model_state"]
    assert [one for one, value in states.items() if value] == [
        labels(model="a/x", state="ready"),
        labels(model="a/y", state="failed"),
    ]
    assert told["cerberus_evictions_total"] == {labels(model="a/y"): 4}
    assert told["cerberus_memory_taken_bytes"] == {labels(pool="host"): 1 << 20}
    assert told["cerberus_key_refusals_total"][labels(key="laptop", code="limit_reached")] == 5
    assert told["cerberus_usage_records_dropped_total"] == {(): 6}


def test_a_copy_is_not_changed_by_what_is_added_later() -> None:
    tallies = Tallies()
    tallies.add(record(prompt_tokens=1, duration_ms=1))
    copy = tallies.copy()
    tallies.add(record(prompt_tokens=1, duration_ms=1))
    told = samples(copy)
    assert told["cerberus_prompt_tokens_total"] == {labels(model="up/m"): 1}
    assert told["cerberus_request_duration_seconds_count"] == {labels(model="up/m"): 1}


def test_the_format_is_the_one_that_is_asked_for() -> None:
    body, kind = page(Tallies(), moment(), "application/openmetrics-text;version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    _, kind = page(Tallies(), moment(), "")
    assert kind.startswith("text/plain")
