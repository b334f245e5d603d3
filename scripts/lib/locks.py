"""The locks hold what the projects ask for, and no addresses."""

import re
import sys
import tomllib
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
OURS = {
    "cerberus-runtime",
    "cerberus-amd",
    "cerberus-llamacpp",
    "cerberus-lmstudio",
    "cerberus-nvidia",
    "cerberus-ollama",
    "cerberus-openai",
    "cerberus-rapl",
    "cerberus-hello",
}


def pinned(lock: Path) -> dict[str, str]:
    """Package name → version."""
    pins: dict[str, str] = {}
    for line in lock.read_text().splitlines():
        match = re.match(r"([A-Za-z0-9._-]+)==([^ ;\\]+)", line)
        if match:
            pins[canonicalize_name(match[1])] = match[2]
    return pins


def asked(project: Path, group: str) -> list[Requirement]:
    """What a project needs to run, with one dependency group."""
    data = tomllib.loads(project.read_text())
    rows = data["project"].get("dependencies", []) + data.get("dependency-groups", {}).get(
        group, []
    )
    return [Requirement(row) for row in rows]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    wrong: list[str] = []
    members = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]
    for name, group in (("requirements.lock", "build"), ("requirements-dev.lock", "dev")):
        text = (ROOT / name).read_text()
        pins = pinned(ROOT / name)
        if re.search(r"https?://|--index|--find-links", text):
            wrong.append(f"{name} records an address")
        if text.count("--hash=") < len(pins):
            wrong.append(f"{name} has a pin without a hash")
        for project in members:
            for need in asked(project, group):
                key = canonicalize_name(need.name)
                if key in OURS or not _applies(need.marker):
                    continue
                if key not in pins:
                    wrong.append(f"{name} lacks {need.name} ({project.relative_to(ROOT)})")
                elif not need.specifier.contains(pins[key], prereleases=True):
                    wrong.append(f"{name} pins {key} {pins[key]}, asked for is {need}")
    if wrong:
        wrong.append("Write them anew with scripts/lib/lock.sh")
    sys.stdout.write("\n".join(wrong) + ("\n" if wrong else ""))
    return 1 if wrong else 0


def _applies(marker: Marker | None) -> bool:
    return marker is None or marker.evaluate()


if __name__ == "__main__":
    sys.exit(main())
