"""What a plugin is given when it is asked for its objects."""

from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")


class PluginSetup(Protocol):
    """Handed to every hook that makes objects.

    The folders exist already. A plugin keeps its own files in folders of its
    name below them (`data_dir / "llamacpp"`).
    """

    name: str
    """The plugin's name, as in `[plugins.<name>]`."""
    data_dir: Path
    models_dir: Path
    """Where pulled models go."""
    logs_dir: Path

    def settings(self, cls: type[T]) -> T:
        """`[plugins.<name>]` as the attrs class `cls`.

        A wrong value raises `ConfigError` with the key path; an unknown key is
        a warning that names the nearest known one.
        """
        ...
