"""`[plugins.<name>]` as the class that the plugin declares."""

from collections.abc import Callable
from typing import TypeVar

from cerberus_core.errors import ConfigError

from .overrides import source_at
from .rules import WrongValue
from .schema import Config
from .structure import dotted, structured, told, unknown_text

T = TypeVar("T")


def plugin_settings(config: Config, name: str, cls: type[T], warn: Callable[[str], None]) -> T:
    """The settings of plugin `name` as the attrs class `cls`.

    Raises ConfigError with the key path for a wrong value; `warn` gets one
    line for each unknown key.
    """
    prefix = ("plugins", name)
    tree = {"plugins": config.plugins}
    try:
        settings, unknown = structured(config.plugins.get(name, {}), cls, prefix)
    except WrongValue as wrong:
        raise ConfigError(
            told(wrong, source_at(tree, wrong.path)),
            hint=f"correct {dotted(wrong.path)} in the configuration",
        ) from None
    for key in unknown:
        warn(unknown_text(key, source_at(tree, key.path)))
    return settings
