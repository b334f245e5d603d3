"""Plugins that take up their settings without a restart: made anew, put in place of the old."""

from collections.abc import Callable, Collection

import cerberus_core
from cerberus_core.config import Config, Current
from cerberus_core.engines import Manager
from cerberus_core.errors import ConfigError, PluginError
from cerberus_core.loading import Plugins, load_plugin
from cerberus_core.platform import Folders, in_daemon_thread


class LivePlugins:
    """Those whose backends keep nothing: endpoints that are simply there."""

    def __init__(
        self, plugins: Plugins, manager: Manager, folders: Folders, settings: Current
    ) -> None:
        self._plugins = plugins
        self._manager = manager
        self._folders = folders
        self._settings = settings

    def names(self) -> Collection[str]:
        return self._plugins.live

    async def prepare(self, config: Config) -> Callable[[], None]:
        """Make those anew whose settings differ from what is in force; nothing is changed yet.

        Raises ConfigError where one refuses its settings.
        """
        before = self._settings.config.plugins
        changed = [
            name
            for name in sorted(self._plugins.live)
            if config.plugins.get(name, {}) != before.get(name, {})
        ]
        made = {name: await self._made(name, config) for name in changed}

        def put() -> None:
            for name, plugin in made.items():
                self._put(name, plugin)

        return put

    async def _made(self, name: str, config: Config) -> Plugins:
        try:
            made = await in_daemon_thread(
                lambda: load_plugin(
                    name, config, self._folders, core_version=cerberus_core.__version__
                )
            )
        except PluginError as error:
            raise ConfigError(error.message, hint=error.hint) from None
        for backend in made.backends:
            owner = self._plugins.owners.get(backend, name)
            if owner != name:
                raise ConfigError(
                    f"plugins.{name}: there is a backend {backend!r} already, of {owner}",
                    hint="Give it another name.",
                )
        return made

    def _put(self, name: str, made: Plugins) -> None:
        plugins = self._plugins
        gone = [backend for backend, owner in plugins.owners.items() if owner == name]
        for backend in gone:
            del plugins.owners[backend]
        plugins.owners.update(made.owners)
        plugins.told[name] = made.warnings
        if name not in made.live:
            plugins.live.discard(name)
        for index, report in enumerate(plugins.reports):
            if report.name == name:
                plugins.reports[index : index + 1] = made.reports
        self._manager.exchange(gone, made.backends)
