"""The objects of one plugin, checked against the contract of their interface."""

import re
from collections.abc import Collection
from typing import Any, Generic, TypeVar

import attrs

from cerberus_core.errors import PluginError
from cerberus_core.interfaces import Backend, EnergyMeter, GPUVendor

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

T = TypeVar("T")


@attrs.frozen
class Kind(Generic[T]):
    """What one hook returns a list of."""

    hook: str
    interface: type[T]
    one: str
    """`backend`, as it is told in reports."""
    several: str


BACKENDS: Kind[Backend] = Kind("cerberus_model_backends", Backend, "backend", "backends")  # type: ignore[type-abstract]
VENDORS: Kind[GPUVendor] = Kind("cerberus_gpu_vendors", GPUVendor, "GPU vendor", "GPU vendors")  # type: ignore[type-abstract]
METERS: Kind[EnergyMeter] = Kind(
    "cerberus_energy_meters",
    EnergyMeter,  # type: ignore[type-abstract]
    "energy meter",
    "energy meters",
)


def collected(kind: Kind[T], results: list[Any], taken: Collection[str]) -> dict[str, T]:
    """`results` of the hook call as name → object. Raises PluginError; all or none."""
    if not results:
        raise PluginError(
            f"{kind.hook} returned None", hint="Return a list, empty if there is none."
        )
    [returned] = results
    if not isinstance(returned, list | tuple):
        raise PluginError(
            f"{kind.hook} returned {_kind(returned)}, not a list",
            hint=f"Return a list of {kind.several}.",
        )
    made: dict[str, T] = {}
    for one in returned:
        if not isinstance(one, kind.interface):
            raise PluginError(
                f"{kind.hook} returned {_kind(one)} among the {kind.several}",
                hint=f"Every item must be a cerberus_core.interfaces.{kind.interface.__name__}.",
            )
        name = getattr(one, "name", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PluginError(
                f"{_kind(one)} has a bad name, {name!r}",
                hint="Letters, digits, '.', '_' and '-'; no slash, no space.",
            )
        if name in taken or name in made:
            raise PluginError(
                f"the name of its {kind.one} {name!r} is taken",
                hint="Rename one of the two, or block one with blocked_plugins.",
            )
        made[name] = one
    return made


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
