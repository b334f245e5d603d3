"""What is installed: entry points with their distributions. Imports no plugin."""

import importlib.metadata
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import NamedTuple

PLUGINS = "cerberus.plugins"


class Found(NamedTuple):
    """An entry point; distribution and version are None where the metadata is gone."""

    name: str
    entry_point: EntryPoint
    distribution: str | None
    version: str | None
    requires: tuple[str, ...]

    @property
    def source(self) -> str:
        return self.distribution or self.entry_point.value


def installed(group: str) -> list[EntryPoint]:
    # Straight from the metadata: stevedore's cache of entry points loses the distribution.
    return list(importlib.metadata.entry_points(group=group))


def installed_plugins() -> list[tuple[str, str | None]]:
    """(name, version) of each plugin that is installed. Imports no plugin."""
    return [(found.name, found.version) for found in described(installed(PLUGINS))]


def described(entry_points: Iterable[EntryPoint]) -> list[Found]:
    """By name; an entry point that stands twice in one distribution counts once."""
    found: dict[tuple[str, str, str | None], Found] = {}
    for entry_point in entry_points:
        name, version, requires = _distribution(entry_point)
        one = Found(entry_point.name, entry_point, name, version, requires)
        found.setdefault((one.name, entry_point.value, name), one)
    return sorted(found.values(), key=lambda one: (one.name, one.source))


def _distribution(entry_point: EntryPoint) -> tuple[str | None, str | None, tuple[str, ...]]:
    dist = getattr(entry_point, "dist", None)
    if dist is None:
        return None, None, ()
    try:
        # Half-removed packages leave folders without name, version or both.
        metadata = dist.metadata
        return metadata.get("Name"), metadata.get("Version"), tuple(dist.requires or ())
    except Exception:  # noqa: BLE001 metadata of others: a report must come out all the same
        return None, None, ()
