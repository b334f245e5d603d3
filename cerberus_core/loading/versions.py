"""Whether a distribution asks for this version of the core."""

from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

CORE = "cerberus-runtime"


def unmet(requires: Iterable[str], core_version: str) -> str | None:
    """The requirement on the core that `core_version` doesn't meet, or None."""
    for line in requires:
        try:
            asked = Requirement(line)
        except InvalidRequirement:
            continue  # the installer's business, not ours
        if canonicalize_name(asked.name) != CORE:
            continue
        if asked.marker is not None and not asked.marker.evaluate({"extra": ""}):
            continue
        if not asked.specifier.contains(core_version, prereleases=True):
            return f"{CORE}{asked.specifier}"
    return None
