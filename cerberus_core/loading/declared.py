"""The class with which a plugin reads its settings, found without making its objects."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from typing import Any

from cerberus_core.config import Config
from cerberus_core.errors import NotFound, PluginError
from cerberus_core.platform import Folders

from . import hooks, reports
from .collect import BACKENDS, METERS, VENDORS
from .discover import PLUGINS, described, installed
from .imports import imported
from .limits import within
from .setup import Setup

_HOOKS = tuple(kind.hook for kind in (BACKENDS, VENDORS, METERS))


class _Told(Exception):
    """Ends the hook once it has asked for its settings."""

    def __init__(self, cls: type) -> None:
        super().__init__(cls.__name__)
        self.cls = cls


class _Asking(Setup):
    def settings(self, cls: type[Any]) -> Any:
        raise _Told(cls)


def settings_class(
    name: str,
    folders: Folders,
    *,
    time_limit_s: float = 10.0,
    entry_points: Iterable[EntryPoint] | None = None,
) -> type | None:
    """The attrs class behind `[plugins.<name>]`; None for a plugin that reads no settings.

    Its hook is called and ended where it asks. Raises NotFound where no such
    plugin is installed, PluginError where it can't be asked.
    """
    every = described(installed(PLUGINS) if entry_points is None else entry_points)
    found = next((one for one in every if one.name == name), None)
    if found is None:
        names = sorted({one.name for one in every})
        meant = get_close_matches(name, names, n=1)
        hint = f"Did you mean {meant[0]}?" if meant else f"Installed: {', '.join(names) or 'none'}"
        raise NotFound(f"no plugin {name!r} is installed", hint=hint)

    def ask() -> None:
        manager = hooks.new_manager()
        hooks.register(manager, found.name, plugin)
        setup = _Asking(
            name=found.name,
            data_dir=folders.data,
            models_dir=folders.models,
            logs_dir=folders.logs,
            config=Config(),
            warn=lambda _: None,
        )
        for hook in _HOOKS:
            if hooks.implements(manager, plugin, hook):
                hooks.call(manager, plugin, hook, setup=setup)

    try:
        plugin = imported(found, time_limit_s)
        within(time_limit_s, f"plugin {found.name}", ask)
    except _Told as told:
        return told.cls
    except Exception as error:
        raise PluginError(
            f"plugin {name} can't say which settings it has: {reports.cause(error)}",
            hint="`cerberus plugins` says what is wrong with it.",
        ) from error
    return None
