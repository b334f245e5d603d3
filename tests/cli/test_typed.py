"""Hints name commands as they must be typed where the person is."""

import sys
from pathlib import Path

import pytest

from cerberus_core.cli import typed as module
from cerberus_core.cli.typed import install_as_typed, typed


def test_commands_in_backticks_are_named_as_they_must_be_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "command_as_typed", lambda **_: r".venv/bin/cerb\1")
    said = "Run `cerberus models ls`, or `cerberus`; `cerberus-llamacpp` and cerberus stay."
    assert typed(said) == (
        r"Run `.venv/bin/cerb\1 models ls`, or `.venv/bin/cerb\1`; "
        "`cerberus-llamacpp` and cerberus stay."
    )


def test_what_brings_a_plugin_in_a_clone_and_elsewhere(tmp_path: Path) -> None:
    root = tmp_path / "a clone"
    assert install_as_typed("cerberus-x", root, tmp_path) == "pip install cerberus-x"
    (root / "plugins" / "cerberus-x").mkdir(parents=True)
    assert install_as_typed("cerberus-x", root, root) == "scripts/serve"
    uv = root / ".tools" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.write_text("")
    words = f".tools/bin/uv pip install --python {sys.executable} -e plugins/cerberus-x"
    assert install_as_typed("cerberus-x", root, root) == words
    assert f"'{uv}'" in install_as_typed("cerberus-x", root, tmp_path / "elsewhere")
