"""Wheels: the core's carries the page, and can't be built without it."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.name for path in (ROOT / "plugins").iterdir())


def build(folder: Path, target: str = "wheel") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The core without a built page."""
    folder = tmp_path / "core"
    folder.mkdir()
    ignore = shutil.ignore_patterns("web_dist", "__pycache__")
    shutil.copytree(ROOT / "cerberus_core", folder / "cerberus_core", ignore=ignore)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_a_release_build_without_the_page_fails_and_says_what_to_do(checkout: Path) -> None:
    for target in ("wheel", "sdist"):
        done = build(checkout, target)
        assert done.returncode != 0
        assert "scripts/web build" in done.stderr + done.stdout
    assert not list(checkout.glob("dist/*"))


def test_the_wheel_carries_the_page_and_the_command(checkout: Path) -> None:
    dist = checkout / "cerberus_core" / "web_dist"
    (dist / "assets").mkdir(parents=True)
    (dist / "index.html").write_text("<!doctype html>")
    (dist / "assets" / "app-1.js").write_text("1")
    done = build(checkout)
    assert done.returncode == 0, done.stderr
    (wheel,) = checkout.glob("dist/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert "cerberus_core/web_dist/index.html" in names
        assert "cerberus_core/web_dist/assets/app-1.js" in names
        assert "cerberus_core/py.typed" in names
        entry_points = next(name for name in names if name.endswith("entry_points.txt"))
        assert b"cerberus = cerberus_core.cli:main" in archive.read(entry_points)
        assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize("name", PLUGINS)
def test_each_plugin_is_a_wheel_of_its_own_with_its_entry_point(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    ignore = shutil.ignore_patterns("dist", "__pycache__")
    shutil.copytree(ROOT / "plugins" / name, folder, ignore=ignore)
    done = build(folder)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("dist/*.whl")
    package = name.replace("-", "_")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert f"{package}/__init__.py" in names
        assert f"{package}/py.typed" in names
        assert not any(entry.startswith("tests/") for entry in names)
        entry_points = next(entry for entry in names if entry.endswith("entry_points.txt"))
        text = archive.read(entry_points).decode()
    assert "[cerberus.plugins]" in text
    assert f"{name.removeprefix('cerberus-')} = {package}" in text
