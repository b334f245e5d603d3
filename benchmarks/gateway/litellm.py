"""LiteLLM's proxy in an environment of its own, from a lock with hashes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.page import ROOT

from .programs import BUILD, HERE

VERSION = "1.80.17"
"""What litellm.lock pins. 1.107.0 was reported compromised: never that one."""
LOCK = HERE / "litellm.lock"
START_S = 300.0
"""It imports for long, and longer on a core that it shares."""
ENVIRONMENT = {
    # Nothing is asked of the network.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "DISABLE_ADMIN_UI": "True",
}


def installed() -> Path:
    """Its command; installed first where it isn't. Raises RuntimeError."""
    folder = BUILD / f"litellm-{VERSION}"
    command, done = folder / "bin" / "litellm", folder / ".done"
    wanted = LOCK.read_bytes()
    if done.exists() and done.read_bytes() == wanted:
        return command
    if f"litellm=={VERSION} \\\n".encode() not in wanted:
        raise RuntimeError(f"{LOCK} does not pin LiteLLM {VERSION}")
    uv = _uv()
    print(f"installing LiteLLM {VERSION} into {folder}", flush=True)
    python = folder / "bin" / "python"
    for step in (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "--no-deps",
         "-r", str(LOCK)],
    ):  # fmt: skip
        told = subprocess.run(step, capture_output=True, text=True, timeout=1800, check=False)
        if told.returncode:
            raise RuntimeError(f"LiteLLM could not be installed:\n{told.stderr.strip()}")
    done.write_bytes(wanted)
    return command


def _uv() -> str:
    path = f"{ROOT / '.tools' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    found = shutil.which("uv", path=path)
    if found is None:
        raise RuntimeError("uv is missing: scripts/check installs it into .tools")
    return found
