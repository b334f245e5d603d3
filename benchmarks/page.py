"""Tables, and the page that keeps them."""

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path(__file__).resolve().parent / "README.md"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def write(name: str, text: str) -> None:
    """Replace what stands between the marks of `name`. Raises ValueError without marks."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    page = PAGE.read_text(encoding="utf-8")
    head, found, rest = page.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{PAGE} has no marks for {name}")
    PAGE.write_text(f"{head}{begin}\n{text}\n\n{end}{tail}", encoding="utf-8")


def circumstances(versions: Iterable[str]) -> str:
    """Date, commit, machine and versions in one paragraph."""
    commit = first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]) or "unknown"
    load = os.getloadavg()[0]
    parts = [
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}",
        f"{os.cpu_count()} CPUs ({_cpu()}), load average {load:.1f} at the end",
        f"Python {platform.python_version()}",
        *versions,
    ]
    return "; ".join(part for part in parts if part) + "."


def first_line(command: Sequence[str]) -> str | None:
    """What a command says first, on stdout or stderr; None where it isn't there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    name = next((line for line in lines if line.startswith("model name")), "")
    return name.partition(":")[2].strip() or platform.machine()
