"""All plugins, one after the other; each failure is that plugin's alone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

import attrs

from cerberus_core.config import Config
from cerberus_core.errors import PluginError
from cerberus_core.interfaces import Backend, EnergyMeter, GPUVendor
from cerberus_core.platform import Folders
from cerberus_core.values import PluginReport

from . import hooks, reports
from .collect import BACKENDS, METERS, VENDORS, Kind, collected
from .discover import PLUGINS, Found, described, installed
from .imports import imported
from .limits import within
from .setup import setup_for
from .versions import unmet

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Plugins:
    """What all plugins brought."""

    backends: dict[str, Backend] = attrs.field(factory=dict)
    gpu_vendors: dict[str, GPUVendor] = attrs.field(factory=dict)
    energy_meters: dict[str, EnergyMeter] = attrs.field(factory=dict)
    reports: list[PluginReport] = attrs.field(factory=list)
    told: dict[str, list[str]] = attrs.field(factory=dict)
    """Plugin → unknown keys in its settings."""
    owners: dict[str, str] = attrs.field(factory=dict)
    """Backend → the plugin that brought it."""
    live: set[str] = attrs.field(factory=set)
    """Plugins that `load_plugin` may make anew: they bring backends alone, and those keep nothing
    that would be lost with them.
    """

    @property
    def warnings(self) -> list[str]:
        """Of all plugins."""
        return [line for lines in self.told.values() for line in lines]


def load_plugins(
    config: Config,
    folders: Folders,
    *,
    core_version: str,
    time_limit_s: float = 10.0,
    entry_points: Iterable[EntryPoint] | None = None,
) -> Plugins:
    """Import what is installed (or `entry_points`) and collect what it brings.

    Blocks for up to `time_limit_s` for each import and each hook of a plugin
    that hangs: call it from a worker thread. Raises PluginError for the first
    failure where `strict_plugins` is set, and nothing otherwise.
    """
    return _Load(config, folders, core_version, time_limit_s).all(
        described(installed(PLUGINS) if entry_points is None else entry_points)
    )


def load_plugin(name: str, config: Config, folders: Folders, *, core_version: str) -> Plugins:
    """One plugin anew, with the settings of `config`. Blocks as `load_plugins` does.

    Raises PluginError where it fails.
    """
    alone = attrs.evolve(
        config,
        strict_plugins=True,
        plugins={key: own for key, own in config.plugins.items() if key == name},
    )
    entry_points = [one for one in installed(PLUGINS) if one.name == name]
    return load_plugins(alone, folders, core_version=core_version, entry_points=entry_points)


def _unknown_section(name: str, installed: Iterable[str]) -> str:
    """One line for settings of a plugin that isn't there."""
    meant = get_close_matches(name, list(installed), n=1)
    hint = f"; did you mean plugins.{meant[0]}?" if meant else ""
    return f"plugins.{name}: no plugin {name!r} is installed{hint}"


def _keeps(backend: Backend) -> bool:
    """Whether it may hold engines, downloads or connections."""
    own = type(backend)
    return any(
        getattr(own, name) is not getattr(Backend, name)
        for name in ("aclose", "gone", "pull", "unload")
    )


class _Load:
    def __init__(
        self, config: Config, folders: Folders, core_version: str, time_limit_s: float
    ) -> None:
        self._config = config
        self._folders = folders
        self._core_version = core_version
        self._time_limit_s = time_limit_s
        self._manager = hooks.new_manager()
        self._plugins = Plugins()

    def all(self, every: list[Found]) -> Plugins:
        counts = Counter(found.name for found in every)
        for found in every:
            if found.name in self._config.blocked_plugins:
                self._plugins.reports.append(reports.blocked(found))
                continue
            rivals = [one for one in every if one.name == found.name and one is not found]
            self._plugins.reports.append(self._one(found, rivals if counts[found.name] > 1 else []))
        for name in sorted(self._config.plugins.keys() - counts.keys()):
            self._plugins.told[name] = [_unknown_section(name, counts)]
        return self._plugins

    def _one(self, found: Found, rivals: list[Found]) -> PluginReport:
        doing = "check"
        try:
            self._admit(found, rivals)
            doing = "import"
            plugin = imported(found, self._time_limit_s)
            doing = "registration"
            self._within(found, lambda: hooks.register(self._manager, found.name, plugin))
            every = self._plugins
            if not self._within(found, lambda: self._reads(plugin)):
                every.live.add(found.name)
            doing = f"hook {BACKENDS.hook}"
            backends = self._ask(found, plugin, BACKENDS, every.backends)
            doing = f"hook {VENDORS.hook}"
            readers = {**every.gpu_vendors, **every.energy_meters}
            vendors = self._ask(found, plugin, VENDORS, readers)
            doing = f"hook {METERS.hook}"
            meters = self._ask(found, plugin, METERS, {**readers, **vendors})
        except Exception as error:  # whatever a plugin raises becomes its report
            self._forget(found.name)
            report = reports.failed(found, doing, error)
            if self._config.strict_plugins:
                raise PluginError(
                    f"plugin {found.name} ({found.source}): {report.problem}", hint=report.hint
                ) from error
            return report
        every.backends.update(backends)
        every.owners.update(dict.fromkeys(backends, found.name))
        if any(_keeps(backend) for backend in backends.values()):
            every.live.discard(found.name)
        every.gpu_vendors.update(vendors)
        every.energy_meters.update(meters)
        provides = [
            f"{kind.one} {name}"
            for kind, made in ((BACKENDS, backends), (VENDORS, vendors), (METERS, meters))
            for name in made
        ]
        return reports.loaded(found, tuple(provides))

    def _admit(self, found: Found, rivals: list[Found]) -> None:
        """Raises PluginError for what must not even be imported."""
        if rivals:
            others = ", ".join(rival.source for rival in rivals)
            raise PluginError(
                f"another plugin has the same name: {others}",
                hint=f"Uninstall one of {found.source}, {others}",
            )
        asked = unmet(found.requires, self._core_version)
        if asked:
            raise PluginError(
                f"asks for {asked}; this is {self._core_version}",
                hint=f"Update {found.source} and cerberus-runtime together.",
            )

    def _ask(
        self, found: Found, plugin: Any, kind: Kind[T], taken: Mapping[str, object]
    ) -> dict[str, T]:
        """What the plugin brings of one kind, by name."""

        def ask() -> dict[str, T]:
            if not self._implements(plugin, kind):
                return {}
            warn = self._plugins.told.setdefault(found.name, []).append
            setup = setup_for(found.name, self._config, self._folders, warn)
            results = hooks.call(self._manager, plugin, kind.hook, setup=setup)
            return collected(kind, results, taken)

        made: dict[str, T] = self._within(found, ask)
        return made

    def _reads(self, plugin: Any) -> bool:
        return self._implements(plugin, VENDORS) or self._implements(plugin, METERS)

    def _implements(self, plugin: Any, kind: Kind[Any]) -> bool:
        return hooks.implements(self._manager, plugin, kind.hook)

    def _within(self, found: Found, call: Any) -> Any:
        # Even a look at a plugin's attributes runs its code.
        return within(self._time_limit_s, f"plugin {found.name}", call)

    def _forget(self, name: str) -> None:
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)
