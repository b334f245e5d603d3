"""What the settings say of models: which one is meant, and which isn't there."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import attrs
import pytest

from cerberus_core.config import Config, ModelSettings
from cerberus_core.engines.footprints import plan_key
from cerberus_core.engines.policy import (
    ModelPolicy,
    Policies,
    backoff_s,
    first_choice,
    index,
    near,
    not_found,
    policies_of,
    strangers,
)
from cerberus_core.values import LoadPlan, ModelInfo

HELLO = ModelInfo(id="hello/world", backend="hello", name="world")
SMALL = ModelInfo(id="llamacpp/small", backend="llamacpp", name="small", size_mib=90)
BIG = ModelInfo(id="llamacpp/big", backend="llamacpp", name="big", size_mib=9000)
EMBED = ModelInfo(
    id="llamacpp/e", backend="llamacpp", name="e", size_mib=9, capabilities=frozenset({"embed"})
)
BROKEN = ModelInfo(id="llamacpp/a", backend="llamacpp", name="a", size_mib=9, problem="cut off")
CLOUD = ModelInfo(id="acme/m", backend="acme", name="m", local=False, managed=False, state="ready")
LOADED = ModelInfo(id="llamacpp/warm", backend="llamacpp", name="warm", size_mib=90, state="ready")


@pytest.mark.parametrize(
    ("models", "default", "chosen"),
    [
        ([], None, None),
        ([BROKEN, EMBED], None, None),
        ([CLOUD], None, "acme/m"),
        ([CLOUD, HELLO], None, "hello/world"),
        ([HELLO, BIG, SMALL], None, "llamacpp/big"),
        ([CLOUD, HELLO, BIG, LOADED], None, "llamacpp/warm"),
        ([HELLO, BIG, SMALL], "small", "llamacpp/small"),
        ([HELLO, CLOUD], "acme/gone", "acme/gone"),
    ],
)
def test_the_model_of_those_who_name_none(
    models: list[ModelInfo], default: str | None, chosen: str | None
) -> None:
    names = index({model.id: model for model in models}, {})
    assert first_choice(models, names, default) == chosen


def test_what_the_settings_say_of_models_that_arent_there() -> None:
    policies = Policies(
        models={name: ModelPolicy(ttl_s=1) for name in ("llamacpp/smal", "acme/x", "nope")},
        default="bgi",
    )
    names = index({model.id: model for model in (SMALL, BIG)}, {})
    ids = ["llamacpp/small", "llamacpp/big"]
    assert strangers(policies, ids, names, []) == [
        "default_model: no model is named 'bgi'",
        '[models."llamacpp/smal"]: no model has that id; did you mean llamacpp/small?',
        '[models."acme/x"]: no model has that id',
        '[models."nope"]: no model has that id',
    ]
    silent = strangers(policies, ids, names, ["acme"])
    assert len(silent) == 3
    assert not any("acme" in line for line in silent), "it may be there for all we know"


def test_names_that_could_have_been_meant() -> None:
    ids = ["llamacpp/Qwen3-4B-Q4_K_M", "llamacpp/small", "acme/x"]
    assert near("llamacpp/smal", ids) == ["llamacpp/small"]
    assert near("qwen3", ids) == ["llamacpp/Qwen3-4B-Q4_K_M"], "a part of it is enough"
    assert near("", ids) == near("zzz", ids) == []
    assert not_found("qwen3", ids).hint == "Did you mean llamacpp/Qwen3-4B-Q4_K_M?"
    assert "pull starter" in (not_found("x", []).hint or "")


def test_many_settings_of_models_that_are_not_there_are_few_lines_and_fewer_comparisons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []

    def counted(asked: str, known: list[str], **how: Any) -> list[str]:
        compared.append(len(known))
        return get_close_matches(asked, known, **how)

    monkeypatch.setattr("cerberus_core.engines.policy.get_close_matches", counted)
    ids = [f"llamacpp/model-{number}-Q4_K_M" for number in range(900)]
    policies = Policies(
        models={f"llamacpp/modl-{n}-Q4_K_M": ModelPolicy(ttl_s=1) for n in range(30)}
    )
    lines = strangers(policies, ids, {}, [])
    assert len(lines) == 6
    assert lines[0].endswith("did you mean llamacpp/model-0-Q4_K_M?")
    assert lines[-1] == '[models."…"]: 25 more are of no model'
    assert sum(compared) <= 500
    assert strangers(policies, ids, {}, []) == lines
    assert len(compared) == 5, "the second look costs nothing"
    assert near("x" * 10_000, ids) == []
    assert near("llamacpp/model-899-Q4KM", ids)[0] == "llamacpp/model-899-Q4_K_M"


def test_a_load_that_fails_again_and_again_is_refused_for_a_minute_at_most() -> None:
    waits = [backoff_s(failures) for failures in range(9)]
    assert waits == [0, 0, 2, 4, 8, 16, 32, 60, 60]
    assert backoff_s(5000) == 60, "however often"


def test_every_wish_of_a_plan_is_a_setting_of_a_model() -> None:
    settings = ModelSettings(
        context=1, parallel=2, cache_type_k="q8_0", cache_type_v="q4_0", gpu_layers=3,
        tensor_split=[3, 1], main_gpu=1, devices=["CUDA0"], draft="toy/s", draft_tokens=4,
        chat_template="mine.jinja", extra_args=["--x"],
    )  # fmt: skip
    plan = policies_of(Config(models={"toy/a": settings}), Path("/c")).of("toy/a").plan
    assert plan.asked() == {
        "context": 1, "parallel": 2, "cache_type_k": "q8_0", "cache_type_v": "q4_0",
        "gpu_layers": 3, "tensor_split": (3, 1), "main_gpu": 1, "devices": ("CUDA0",),
        "draft": "toy/s", "draft_tokens": 4,
        "chat_template": str(Path("/c/mine.jinja")), "extra_args": ("--x",),
    }  # fmt: skip
    assert plan.asked().keys() == {field.name for field in attrs.fields(LoadPlan)}
    keys = {plan_key(attrs.evolve(plan, **{name: None})) for name in plan.asked()}
    assert len({*keys, plan_key(plan)}) == 13, "each of them makes another footprint"
