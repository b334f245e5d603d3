"""The stand-ins of the plugins' tests, for whoever else wants one."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PLUGINS = Path(__file__).parents[1] / "plugins"


def stand_in(plugin: str, name: str) -> Any:
    """`stand_in("ollama", "FakeOllama")`: the class in `fake_ollama.py` of its tests."""
    file = PLUGINS / f"cerberus-{plugin}" / "tests" / f"fake_{plugin}.py"
    if not file.is_file():
        pytest.skip(f"cerberus-{plugin} is not here")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
