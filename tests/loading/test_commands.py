"""Commands of plugins are listed without importing any, and imported one at a time."""

import os
import subprocess
import sys
from typing import Any

import pytest

from cerberus_core.errors import NotFound, PluginError
from cerberus_core.loading import load_command, plugin_command_names

GROUP = "cerberus.commands"


def test_names_import_no_plugin(site: Any) -> None:
    site.add("one", "raise AssertionError('imported')", group=GROUP)
    site.add("two", "raise AssertionError('imported')", group=GROUP)
    assert {"one", "two"} <= set(plugin_command_names())


def test_names_need_neither_pluggy_nor_stevedore(site: Any) -> None:
    code = (
        "import sys; from cerberus_core.loading import plugin_command_names as names;"
        "names(); print(*sys.modules)"
    )
    modules = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(site.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()
    assert not {"pluggy", "stevedore", "cattrs", "attrs", "attr"} & set(modules)


def test_only_the_named_command_is_imported(site: Any) -> None:
    site.add("bad", "raise AssertionError('imported')", group=GROUP)
    module = site.add("good", "app = 'the app'", group=GROUP)
    assert load_command("good").app == "the app"
    assert module in sys.modules


@pytest.mark.parametrize("source", ["raise SystemExit(2)", "import nosuchlib", "assert False"])
def test_a_broken_command_is_one_error(site: Any, source: str) -> None:
    site.add("bad", source, group=GROUP)
    with pytest.raises(PluginError, match="command bad of cerberus-bad: import raised") as caught:
        load_command("bad")
    assert caught.value.hint


def test_unknown_and_double_commands(site: Any) -> None:
    with pytest.raises(NotFound):
        load_command("nothing-of-that-name")
    site.add("same", dist="one", module="cerberus_cmd_a", group=GROUP)
    site.add("same", dist="two", module="cerberus_cmd_b", group=GROUP)
    with pytest.raises(PluginError, match="one, two"):
        load_command("same")
