"""The stand-ins of the plugins' own tests, for tests of the whole."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

PLUGINS = Path(__file__).parents[1] / "plugins"


def stand_in(plugin: str, module: str) -> Any:
    """The module of that name in a plugin's tests; one and the same for all who ask."""
    name = f"{plugin}_tests_{module}"
    if name not in sys.modules:
        path = PLUGINS / f"cerberus-{plugin}" / "tests" / f"{module}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    return sys.modules[name]
