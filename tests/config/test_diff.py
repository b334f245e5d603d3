"""What changed between two settings, and what becomes of it."""

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.config import Config, ModelSettings, diff, effect_of, in_force
from cerberus_core.config.schema import (
    EnergyConfig,
    EnginesConfig,
    GatewayConfig,
    GPUConfig,
    ServerConfig,
    UsageConfig,
)
from cerberus_core.values import LoadPlan

SECONDS = st.floats(0.5, 1000.0)
COUNT = st.integers(50, 60)
NAMES = st.sampled_from(["a/one", "b/two", "c/three:q4"])
MODEL = st.builds(
    ModelSettings,
    ttl_s=st.none() | SECONDS,
    context=st.none() | COUNT,
    parallel=st.none() | COUNT,
    concurrency=st.none() | COUNT,
    pinned=st.booleans(),
    preload=st.booleans(),
    group=st.sampled_from([None, "g"]),
    exclusive=st.booleans(),
)
PLUGIN = st.dictionaries(
    st.sampled_from(["base_url", "api_key", "n"]),
    st.integers(0, 3) | st.dictionaries(st.sampled_from("xy"), st.integers(0, 3)),
)
CONFIG = st.builds(
    Config,
    default_model=st.sampled_from([None, "a/one"]),
    strict_plugins=st.booleans(),
    blocked_plugins=st.lists(st.sampled_from(["amd", "rapl"]), max_size=2),
    server=st.builds(
        ServerConfig,
        host=st.sampled_from(["127.0.0.1", "::1"]),
        port=COUNT,
        token=st.sampled_from([None, "secret-one", "secret-two"]),
        allowed_hosts=st.lists(st.sampled_from(["box", "box.local"]), max_size=2),
    ),
    gateway=st.builds(GatewayConfig, hold_s=SECONDS, body_limit_mib=COUNT),
    engines=st.builds(EnginesConfig, ttl_s=SECONDS, max_loaded=st.none() | COUNT),
    gpu=st.builds(GPUConfig, active_interval_ms=COUNT),
    energy=st.builds(EnergyConfig, price_per_kwh=st.none() | SECONDS),
    usage=st.builds(UsageConfig, keep=COUNT),
    models=st.dictionaries(NAMES, MODEL),
    plugins=st.dictionaries(st.sampled_from(["openai", "ollama"]), PLUGIN),
)
LIVE = st.sets(st.sampled_from(["openai", "ollama"]))


@given(CONFIG)
def test_nothing_differs_from_itself(config: Config) -> None:
    assert diff(config, config) == []


@given(CONFIG, CONFIG, LIVE)
def test_what_is_taken_up_and_what_waits_make_up_all_changes(
    old: Config, new: Config, live: set[str]
) -> None:
    changes = diff(old, new, live)
    taken = in_force(old, new, live)
    assert diff(old, taken, live) == [one for one in changes if one.effect != "restart"]
    assert diff(taken, new, live) == [one for one in changes if one.effect == "restart"]
    if all(one.effect != "restart" for one in changes):
        assert diff(taken, new) == []


@given(CONFIG, CONFIG)
def test_what_waits_is_in_force_once_it_was_there_at_a_start(old: Config, new: Config) -> None:
    assert in_force(new, new) == new
    assert in_force(in_force(old, new), new) == in_force(old, new)


@given(CONFIG, CONFIG)
def test_no_secret_is_told(old: Config, new: Config) -> None:
    told = str([attrs.asdict(one) for one in diff(old, new)])
    assert "secret-" not in told


def one_of(old: dict[str, Any], new: dict[str, Any]) -> Any:
    [change] = diff(Config(**old), Config(**new))
    return change


def test_a_change_names_its_key_both_values_and_what_becomes_of_it() -> None:
    before = {"models": {"a/b": ModelSettings(context=4096)}}
    change = one_of(before, {"models": {"a/b": ModelSettings(context=8192)}})
    assert (change.key, change.old, change.new) == ('models."a/b".context', 4096, 8192)
    assert change.effect == "next_load"
    assert change.about == "a loaded model goes on as it is until it is loaded anew"


def test_all_that_decides_on_a_load_counts_from_the_next_one_on() -> None:
    for field in attrs.fields(LoadPlan):
        assert hasattr(ModelSettings(), field.name), "each wish of a plan is a setting"
        assert effect_of(("models", "a/b", field.name)) == "next_load"


def test_a_model_without_a_section_has_the_defaults() -> None:
    change = one_of({}, {"models": {"a/b": ModelSettings(ttl_s=60.0)}})
    assert (change.key, change.old, change.new) == ('models."a/b".ttl_s', None, 60.0)
    assert diff(Config(), Config(models={"a/b": ModelSettings()})) == []


def test_another_key_is_a_change_that_shows_neither() -> None:
    def plugin(key: str) -> dict[str, Any]:
        return {"plugins": {"openai": {"endpoints": {"up": {"api_key": key}}}}}

    change = one_of(plugin("sk-1"), plugin("sk-2"))
    assert (change.key, change.old, change.new) == (
        "plugins.openai.endpoints.up.api_key",
        "set",
        "set",
    )
    assert change.effect == "restart"
    assert effect_of(("plugins", "openai", "x"), ["openai"]) == "now"
