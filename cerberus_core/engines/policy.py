"""What the configuration says about models, as the manager needs it. Pure."""

from collections.abc import Mapping

import attrs

from cerberus_core.values import LoadPlan, ModelInfo

BACKOFF_CAP_S = 60.0


@attrs.frozen(kw_only=True)
class ModelPolicy:
    """How one model is treated. `ttl_s` 0 means it is never unloaded for idleness."""

    ttl_s: float
    plan: LoadPlan = attrs.field(factory=LoadPlan)


@attrs.frozen(kw_only=True)
class Policies:
    """Policies and aliases of all models."""

    default_ttl_s: float = 600.0
    models: Mapping[str, ModelPolicy] = attrs.field(factory=dict)
    aliases: Mapping[str, str] = attrs.field(factory=dict)
    """alias → model id"""

    def of(self, model_id: str) -> ModelPolicy:
        return self.models.get(model_id) or ModelPolicy(ttl_s=self.default_ttl_s)


def index(models: Mapping[str, ModelInfo], aliases: Mapping[str, str]) -> dict[str, str]:
    """Every name that means a model → its id: exact id, alias, bare name if only one has it.

    An exact id wins over an alias, an alias over a bare name. A bare name that
    two models share means neither.
    """
    names: dict[str, str] = {}
    shared: set[str] = set()
    for model in models.values():
        if model.name in names:
            shared.add(model.name)
        names[model.name] = model.id
    for name in shared:
        del names[name]
    names.update({alias: target for alias, target in aliases.items() if target in models})
    names.update({model_id: model_id for model_id in models})
    return names


def backoff_s(failures: int) -> float:
    """Seconds to refuse a new load after `failures` in a row: 0, 2, 4, 8 … 60.

    The first failure costs nothing: the next request may try at once.
    """
    return 0.0 if failures < 2 else min(2.0 ** (failures - 1), BACKOFF_CAP_S)
