"""`scripts/serve` on machines that lack things: what it does, and what it says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["bash", "dirname", "cat", "mkdir", "rm", "ln", "cut", "sha256sum", "sleep", "env", "ls"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the scripts are for Linux")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The scripts alone, in a folder of their own."""
    shutil.copytree(ROOT / "scripts", tmp_path / "clone" / "scripts")
    return tmp_path / "clone"


def machine(folder: Path, python: str | None) -> dict[str, str]:
    """A PATH with the basic tools and, if given, a `python3` that is this shell script."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (bin_folder / tool).symlink_to(found)
    if python is not None:
        program = bin_folder / "python3"
        program.write_text(f"#!/bin/bash\n{python}\n")
        program.chmod(0o755)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "SSL_", "REQUESTS_", "CURL_", "HTTP", "http"))
    }
    return {**kept, "PATH": str(bin_folder), "HOME": str(folder)}


def ensure_uv(clone: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = ". scripts/lib/env.sh; ensure_uv; $uv --version"
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail; {command}"],
        cwd=clone,
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


REAL = sys.executable


def test_without_pip_and_venv_it_says_what_to_install(clone: Path, tmp_path: Path) -> None:
    stock_debian = f'case "$*" in "-m pip"*|"-m venv"*) exit 1;; esac; exec {REAL} "$@"'
    done = ensure_uv(clone, machine(tmp_path, stock_debian))
    assert done.returncode == 1
    assert "apt install python3-venv" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_pip_it_makes_do_with_a_venvs_pip(clone: Path, tmp_path: Path) -> None:
    no_pip = f'case "$*" in "-m pip"*) exit 1;; esac; exec {sys._base_executable} "$@"'  # type: ignore[attr-defined]
    done = ensure_uv(clone, machine(tmp_path, no_pip))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("uv ")
    assert (clone / ".tools" / "bin" / "uv").is_file()


def test_an_old_python_is_refused_by_version(clone: Path, tmp_path: Path) -> None:
    done = ensure_uv(clone, machine(tmp_path, "exit 1"))
    assert done.returncode == 1
    assert "Python 3.11 or later" in done.stderr


def test_no_python_at_all_is_refused_the_same_way(clone: Path, tmp_path: Path) -> None:
    done = ensure_uv(clone, machine(tmp_path, None))
    assert done.returncode == 1
    assert "Python 3.11 or later" in done.stderr


def test_the_scripts_find_the_plugins_from_whatever_folder_they_are_called(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f". {ROOT}/scripts/lib/env.sh; members plugins examples"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert "plugins/cerberus-llamacpp" in done.stdout.split()
    assert "examples/cerberus-hello" in done.stdout.split()


def in_bash(folder: Path, command: str, **more_env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", f". {ROOT}/scripts/lib/env.sh; sleep() {{ :; }}; {command}"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **more_env},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "tries"),
    [
        ("error: invalid peer certificate: UnknownIssuer", 1),
        ("[SSL: CERTIFICATE_VERIFY_FAILED]", 1),
        ("npm error code SELF_SIGNED_CERT_IN_CHAIN", 1),
        ("Connection reset by peer", 3),
    ],
)
def test_a_hiccup_is_tried_again_and_a_wrong_certificate_is_told(
    tmp_path: Path, words: str, tries: int
) -> None:
    done = in_bash(
        tmp_path, f"fetch() {{ echo x >>tries; echo '{words}' >&2; false; }}; retry fetch"
    )
    assert done.returncode == 1
    assert (tmp_path / "tries").read_text() == "x\n" * tries
    assert words in done.stderr
    assert ("certificate is not trusted here" in done.stderr) == (tries == 1)


def test_installs_trust_what_the_system_trusts(tmp_path: Path) -> None:
    shown = 'echo "$UV_SYSTEM_CERTS $PIP_CERT $NODE_EXTRA_CA_CERTS"'
    uvs, *bundles = in_bash(tmp_path, shown).stdout.split()
    assert uvs == "1"
    assert all(Path(bundle).is_file() for bundle in bundles)
    mine = in_bash(tmp_path, shown, UV_SYSTEM_CERTS="0", PIP_CERT="p", NODE_EXTRA_CA_CERTS="n")
    assert mine.stdout.split() == ["0", "p", "n"]
