"""The arrows of ARCHITECTURE are enforced: a planted wrong import fails the check."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "cerberus_core": ROOT / "cerberus_core",
    "cerberus_amd": ROOT / "plugins/cerberus-amd/cerberus_amd",
    "cerberus_llamacpp": ROOT / "plugins/cerberus-llamacpp/cerberus_llamacpp",
    "cerberus_lmstudio": ROOT / "plugins/cerberus-lmstudio/cerberus_lmstudio",
    "cerberus_nvidia": ROOT / "plugins/cerberus-nvidia/cerberus_nvidia",
    "cerberus_ollama": ROOT / "plugins/cerberus-ollama/cerberus_ollama",
    "cerberus_openai": ROOT / "plugins/cerberus-openai/cerberus_openai",
    "cerberus_rapl": ROOT / "plugins/cerberus-rapl/cerberus_rapl",
    "cerberus_hello": ROOT / "examples/cerberus-hello/cerberus_hello",
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages and the contracts, apart from the checkout."""
    if not all(path.is_dir() for path in PACKAGES.values()):
        pytest.skip("a package of the contracts is not here")
    folder = tmp_path_factory.mktemp("arrows")
    skip = shutil.ignore_patterns("__pycache__", "web_dist")
    for name, path in PACKAGES.items():
        shutil.copytree(path, folder / name, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    code = "from importlinter.cli import lint_imports_command as main; main(['--no-cache'])"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_arrows_hold(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("cerberus_core/errors.py", "import cerberus_core.cli", "cerberus_core.errors"),
        ("cerberus_core/access/tokens.py", "import cerberus_core.api", "cerberus_core.access"),
        ("cerberus_core/usage/lines.py", "import cerberus_core.events", "cerberus_core.usage"),
        ("cerberus_hello/backend.py", "import cerberus_core.gateway", "cerberus_hello"),
        ("cerberus_core/newroom.py", "", "newroom"),
    ],
)
def test_a_planted_wrong_import_fails(copy: Path, file: str, line: str, told: str) -> None:
    path = copy / file
    before = path.read_text() if path.exists() else None
    try:
        path.write_text(f"{before or ''}\n{line}\n")
        done = lint(copy)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before)
    assert done.returncode == 1, done.stdout
    assert told in done.stdout + done.stderr
