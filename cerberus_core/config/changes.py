"""Two settings compared: what changed, and what becomes of a change. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import attrs

from cerberus_core.values import LoadPlan

from .schema import Config, ModelSettings
from .secrecy import is_secret, masked, shows
from .structure import dotted

Effect = Literal["now", "next_load", "restart"]
"""Of a change while a daemon runs: taken up at once, by a model's next load, by a restart."""
KeyPath = tuple[str, ...]

_RESTART: tuple[KeyPath, ...] = (
    ("blocked_plugins",),
    ("plugins",),
    ("server", "host"),
    ("server", "port"),
    ("server", "token"),
    ("strict_plugins",),
    ("usage",),
)
_NEXT_LOAD = frozenset(field.name for field in attrs.fields(LoadPlan))

_SOON = "requests that run keep to the old one"
_STAYS = "nothing that is loaded leaves for it; it counts when the next model is loaded"
_ABOUT = {
    "ttl_s": "a model that has been idle for longer is unloaded at once; one in use is not",
    **dict.fromkeys(_NEXT_LOAD, "a loaded model goes on as it is until it is loaded anew"),
    "concurrency": "requests that run go on",
    "queue_limit": "requests that wait already stay",
    "pinned": _STAYS,
    "group": _STAYS,
    "exclusive": _STAYS,
    "oversize": _STAYS,
    "max_loaded": _STAYS,
    "memory_mib": _STAYS,
    "preload": "nothing is loaded for it before the next start",
    "hold_s": _SOON,
    "session_hold_s": _SOON,
    "keepalive_s": _SOON,
    "body_limit_mib": _SOON,
    "silence_s": _SOON,
}


@attrs.frozen(kw_only=True)
class Change:
    """One setting. `old` and `new` are as anybody may see them; None: unset."""

    key: str
    """As TOML writes it: `models."llamacpp/qwen".ttl_s`."""
    old: Any
    new: Any
    effect: Effect
    about: str | None = None
    """What it does to what runs, in words."""


def diff(old: Config, new: Config, live_plugins: Collection[str] = ()) -> list[Change]:
    """What changed from `old` to `new`, by key.

    `live_plugins` take up their settings without a restart.
    """
    before, after = _leaves(old, new), _leaves(new, old)
    return [
        Change(
            key=dotted(path),
            old=_shown(path, before.get(path)),
            new=_shown(path, after.get(path)),
            effect=effect_of(path, live_plugins),
            about=None if path[0] == "plugins" else _ABOUT.get(path[-1]),
        )
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def unloaded_yet(plans: Mapping[str, tuple[LoadPlan, LoadPlan]]) -> list[Change]:
    """What waits for a model's next load. `plans`: of loaded ones, by id, as loaded and as wanted.

    What a model was loaded with is `old`.
    """
    return [
        Change(
            key=dotted(("models", model_id, field.name)),
            old=_told(getattr(loaded, field.name)),
            new=_told(getattr(wanted, field.name)),
            effect="next_load",
            about=_ABOUT[field.name],
        )
        for model_id, (loaded, wanted) in sorted(plans.items())
        for field in attrs.fields(LoadPlan)
        if getattr(loaded, field.name) != getattr(wanted, field.name)
    ]


def _told(value: Any) -> Any:
    return masked(list(value) if isinstance(value, tuple) else value, secret=False)


def effect_of(path: KeyPath, live_plugins: Collection[str] = ()) -> Effect:
    """What becomes of a change at `path` while a daemon runs."""
    if path[0] == "plugins" and len(path) > 1 and path[1] in live_plugins:
        return "now"
    if any(path[: len(fixed)] == fixed for fixed in _RESTART):
        return "restart"
    return "next_load" if path[0] == "models" and path[-1] in _NEXT_LOAD else "now"


def in_force(running: Config, wanted: Config, live_plugins: Collection[str] = ()) -> Config:
    """`wanted` without what needs a restart: that is as it was."""
    server = attrs.evolve(
        wanted.server,
        host=running.server.host,
        port=running.server.port,
        token=running.server.token,
    )
    plugins = {name: own for name, own in wanted.plugins.items() if name in live_plugins}
    plugins |= {name: own for name, own in running.plugins.items() if name not in live_plugins}
    return attrs.evolve(
        wanted,
        server=server,
        strict_plugins=running.strict_plugins,
        blocked_plugins=running.blocked_plugins,
        usage=running.usage,
        plugins=plugins,
    )


def _leaves(config: Config, other: Config) -> dict[KeyPath, Any]:
    """Every value by its path; a model that only `other` names has the defaults."""
    models = dict.fromkeys(other.models, ModelSettings()) | config.models
    tree = attrs.asdict(attrs.evolve(config, models={}))
    tree["models"] = {name: attrs.asdict(settings) for name, settings in models.items()}
    return dict(_walk(tree, ()))


def _walk(tree: Mapping[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _walk(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def _shown(path: KeyPath, value: Any) -> Any:
    hidden = is_secret(path[:-1]) or not shows(path[-1], value)
    return masked(value, secret=path[0] != "models" and hidden)
