"""What a plugin's hooks are given."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import attrs

from cerberus_core.config import Config, plugin_settings
from cerberus_core.platform import Folders

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Setup:
    """The `PluginSetup` of one plugin; its folders exist."""

    name: str
    data_dir: Path
    models_dir: Path
    logs_dir: Path
    _config: Config = attrs.field(repr=False)
    _warn: Callable[[str], None] = attrs.field(repr=False)

    def settings(self, cls: type[T]) -> T:
        return plugin_settings(self._config, self.name, cls, self._warn)


def setup_for(name: str, config: Config, folders: Folders, warn: Callable[[str], None]) -> Setup:
    """Makes the folders. Raises OSError where that fails."""
    for folder in (folders.data, folders.models, folders.logs):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Setup(
        name=name,
        data_dir=folders.data,
        models_dir=folders.models,
        logs_dir=folders.logs,
        config=config,
        warn=warn,
    )
