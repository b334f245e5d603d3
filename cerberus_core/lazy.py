"""Names of a package that are imported on first use, so that quick commands stay quick."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of `package`; `homes` says which of its modules has which names."""
    found = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in found:
            return getattr(import_module(f".{found[name]}", package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
