"""The objects of one plugin, checked against the contract of their interface."""

import re
from collections.abc import Mapping
from typing import Any

from cerberus_core.errors import PluginError
from cerberus_core.interfaces import Backend

_HOOK = "cerberus_model_backends"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def backends(results: list[Any], taken: Mapping[str, object]) -> dict[str, Backend]:
    """`results` of the hook call as name → backend. Raises PluginError; all or none."""
    if not results:
        raise PluginError(f"{_HOOK} returned None", hint="Return a list, empty if there is none.")
    [returned] = results
    if not isinstance(returned, list | tuple):
        raise PluginError(
            f"{_HOOK} returned {_kind(returned)}, not a list", hint="Return a list of backends."
        )
    made: dict[str, Backend] = {}
    for backend in returned:
        if not isinstance(backend, Backend):
            raise PluginError(
                f"{_HOOK} returned {_kind(backend)} among the backends",
                hint="Every item must be a cerberus_core.interfaces.Backend.",
            )
        name = getattr(backend, "name", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PluginError(
                f"{_kind(backend)} has a bad name, {name!r}",
                hint="Letters, digits, '.', '_' and '-'; no slash, no space.",
            )
        if name in taken or name in made:
            raise PluginError(
                f"the name of its backend {name!r} is taken",
                hint="Rename one of the two, or block one with blocked_plugins.",
            )
        made[name] = backend
    return made


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
