"""The names of plugins' commands, for `--help` and completion.

`importlib.metadata` would take longer to import and to read everything than
the whole of `--help` may: here only the files that name entry points are read.
Distributions inside zip files are passed over; nothing installs such.
"""

import os
import sys
from collections.abc import Iterable, Iterator

GROUP = "cerberus.commands"


def plugin_command_names(folders: Iterable[str] | None = None) -> list[str]:
    """Sorted; of `sys.path` where no folders are given. Imports no plugin."""
    names: set[str] = set()
    for folder in dict.fromkeys(sys.path if folders is None else folders):
        for text in _entry_points(folder or "."):
            names.update(_names(text))
    return sorted(names)


def _entry_points(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as found:
            infos = [one.path for one in found if one.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return
    for info in infos:
        try:
            with open(os.path.join(info, "entry_points.txt"), encoding="utf-8") as file:
                text = file.read()
        except (OSError, ValueError):
            continue
        if GROUP in text:
            yield text


def _names(text: str) -> Iterator[str]:
    """The left sides of `name = module:object` in our section."""
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line.strip("[] ") == GROUP
        elif inside and "=" in line and not line.startswith(("#", ";")):
            yield line.partition("=")[0].strip()
