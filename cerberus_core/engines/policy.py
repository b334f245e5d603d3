"""What the configuration says about models, as the manager needs it. Pure."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from heapq import nlargest
from pathlib import Path
from typing import Any

import attrs

from cerberus_core.config import Config, ModelSettings
from cerberus_core.errors import ModelNotFound
from cerberus_core.values import LoadPlan, ModelInfo, Notice

BACKOFF_CAP_S = 60.0
_NAMED = 5  # models that aren't there, in lines of their own
_ALIKE = 1000  # names of which the likeliest are picked
_COMPARED = 100  # names compared letter by letter
_LONGEST = 200  # letters of a name that is compared


@attrs.frozen(kw_only=True)
class ModelPolicy:
    """How one model is treated. `ttl_s` 0 means it is never unloaded for idleness."""

    ttl_s: float
    plan: LoadPlan = attrs.field(factory=LoadPlan)
    concurrency: int | None = None
    """Requests at the same time; None: as many as come."""
    queue_limit: int | None = None
    """Requests that may wait for it."""
    pinned: bool = False
    """Never leaves for another model."""
    preload: bool = False
    """Loaded at the start."""
    group: str | None = None
    """Lives with the models of its group alone."""
    exclusive: bool = False
    """Lives alone."""
    defaults: Mapping[str, Any] = attrs.field(factory=dict)
    """Parameters of requests that don't name them."""
    forced: Mapping[str, Any] = attrs.field(factory=dict)
    """Parameters of all requests."""
    text_calls: bool = False
    """Tool calls stand in its text."""
    fallbacks: tuple[str, ...] = ()
    """Who answers where it can't."""
    patience_s: float | None = None
    """So long a request waits for it before one of those is asked."""
    oversize: bool = False
    """Loaded though it is larger than the memory there is."""


@attrs.frozen(kw_only=True)
class Policies:
    """Policies and aliases of all models."""

    default_ttl_s: float = 600.0
    queue_limit: int | None = None
    session_hold_s: float = 0.0
    """A model that a session used is kept for its next turn for so long."""
    models: Mapping[str, ModelPolicy] = attrs.field(factory=dict)
    aliases: Mapping[str, str] = attrs.field(factory=dict)
    """alias → model id"""
    default: str | None = None
    """The model of those who name none, by any of its names."""

    def of(self, model_id: str) -> ModelPolicy:
        return self.models.get(model_id) or ModelPolicy(
            ttl_s=self.default_ttl_s, queue_limit=self.queue_limit
        )


def policies_of(config: Config, folder: Path) -> Policies:
    """What the settings say; paths of files in them begin at `folder`."""
    return Policies(
        default_ttl_s=config.engines.ttl_s,
        queue_limit=config.engines.queue_limit,
        session_hold_s=config.engines.session_hold_s,
        models={
            model_id: ModelPolicy(
                ttl_s=config.engines.ttl_s if model.ttl_s is None else model.ttl_s,
                plan=plan_of(model, folder),
                concurrency=model.concurrency,
                queue_limit=config.engines.queue_limit,
                pinned=model.pinned,
                preload=model.preload,
                group=model.group,
                exclusive=model.exclusive,
                defaults=model.defaults,
                forced=model.forced,
                text_calls=model.text_calls,
                fallbacks=tuple(model.fallbacks),
                patience_s=model.patience_s,
                oversize=model.oversize,
            )
            for model_id, model in config.models.items()
        },
        aliases={
            alias: model_id for model_id, model in config.models.items() for alias in model.aliases
        },
        default=config.default_model,
    )


def plan_of(settings: ModelSettings, folder: Path) -> LoadPlan:
    """How one model is to be loaded: the settings of the same names."""
    values: dict[str, Any] = {}
    for field in attrs.fields(LoadPlan):
        value = getattr(settings, field.name)
        values[field.name] = tuple(value) if isinstance(value, list) else value
    if settings.chat_template is not None:
        values["chat_template"] = str(folder / Path(settings.chat_template).expanduser())
    return LoadPlan(**values)


def idle_settings(policies: Policies, ignored: Mapping[str, Mapping[str, str]]) -> list[Notice]:
    """What the settings ask of models that their backends don't do. `ignored`: by model id."""
    return [
        Notice(text=f'models."{model_id}".{name} is not possible', hint=why or None)
        for model_id in policies.models
        for name, why in ignored.get(model_id, {}).items()
    ]


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


def can_chat(model: ModelInfo) -> bool:
    return model.problem is None and "chat" in model.capabilities


def first_choice(
    models: Iterable[ModelInfo], names: Mapping[str, str], default: str | None
) -> str | None:
    """The model to chat with where nobody named one; None where there is none.

    The `default_model` of the settings, there or not: who asked for it wants no
    other. Else one whose weights are here, a loaded one first.
    """
    if default is not None:
        return names.get(default, default)
    able = [model for model in models if can_chat(model)]
    able.sort(
        key=lambda model: (
            not (model.managed and model.size_mib is not None),
            not (model.managed and model.loaded),
            not model.local,
        )
    )
    return able[0].id if able else None


def near(name: str, names: Iterable[str]) -> list[str]:
    """Up to three of `names` that could have been meant."""
    return list(_near(name, tuple(names)))


@lru_cache(maxsize=16)  # asked with each look at the notices
def _near(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    if len(name) > _LONGEST:
        return ()
    known = {one.lower(): one for one in names}
    asked = name.lower()
    close = get_close_matches(asked, _likely(asked, known), n=3, cutoff=0.7)
    inside = sorted(one for one in known if asked and asked in one)
    return tuple(known[one] for one in (close or inside)[:3])


def _likely(asked: str, known: Collection[str]) -> list[str]:
    """Few enough to be compared letter by letter: of many, those that begin and end like it."""
    if len(known) <= _COMPARED:
        return list(known)
    half = len(asked) // 2
    start, end = asked[:half], asked[half:]
    alike = [one for one in known if one.startswith(start) or one.endswith(end)][:_ALIKE]

    def same(one: str) -> int:
        return _shared(one, asked) + _shared(one[::-1], asked[::-1])

    return nlargest(_COMPARED, alike, key=same)


def _shared(one: str, other: str) -> int:
    """Letters that both begin with."""
    for count, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return count
    return min(len(one), len(other))


def not_found(name: str, names: Iterable[str]) -> ModelNotFound:
    """The error that says what there is instead."""
    known = list(names)
    meant = near(name, known)
    if meant:
        hint = f"Did you mean {' or '.join(meant)}?"
    elif known:
        hint = "`cerberus models ls` shows what there is."
    else:
        hint = "There are no models yet: `cerberus models pull starter` fetches a small one."
    return ModelNotFound(f"There is no model named {name!r}", hint=hint)


def strangers(
    policies: Policies, models: Iterable[str], names: Mapping[str, str], unlisted: Iterable[str]
) -> list[str]:
    """What the settings say of models that aren't there, a line each, up to a few.

    Nothing is known of the models of the `unlisted` backends.
    """
    known = dict.fromkeys(models)
    silent = set(unlisted)

    def hidden(name: str) -> bool:
        return name.partition("/")[0] in silent and "/" in name

    lines = []
    default = policies.default
    if not (default is None or default in names or hidden(policies.aliases.get(default, default))):
        lines.append(f"default_model: no model is named {default!r}{_meant(default, names)}")
    gone = [model_id for model_id in policies.models if not (model_id in known or hidden(model_id))]
    lines += [
        f'[models."{model_id}"]: no model has that id{_meant(model_id, known)}'
        for model_id in gone[:_NAMED]
    ]
    if len(gone) > _NAMED:
        more = len(gone) - _NAMED
        lines.append(f'[models."…"]: {more} more {"are" if more > 1 else "is"} of no model')
    return lines


def _meant(name: str, names: Iterable[str]) -> str:
    meant = near(name, names)
    return f"; did you mean {meant[0]}?" if meant else ""


def backoff_s(failures: int) -> float:
    """Seconds to refuse a new load after `failures` in a row: 0, 2, 4, 8 … 60.

    The first failure costs nothing: the next request may try at once.
    """
    return 0.0 if failures < 2 else min(2.0 ** min(failures - 1, 10), BACKOFF_CAP_S)
