"""python -m benchmarks.cli_start: start times of whole commands, medians of N runs."""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks import page
from benchmarks.gateway.targets import cerberus_command

CLICK = """
import click

@click.command()
@click.argument("name", default="world")
def main(name):
    click.echo(f"hello {name}")

main()
"""
# Goals of the start time, as multiples of the click program's.
GOALS = {"version": 1.5, "token": 1.5, "status": 1.5, "--help": 2.0}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cli_start", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, choices=range(1, 201), metavar="N")
    parser.add_argument("--write", action="store_true", help="keep the table in README.md")
    options = parser.parse_args()
    times = _measured(options.runs)
    click = f"click {importlib.metadata.version('click')}"
    text = f"{_table(times)}\n\n{page.circumstances([click])} Medians of {options.runs} runs."
    print(text)
    if options.write:
        page.write("cli_start", text)
    return 0


def _measured(runs: int) -> dict[str, list[float]]:
    """Milliseconds of each run, none for a command that fails.

    In turns, so that a slow moment hits all alike.
    """
    with tempfile.TemporaryDirectory(prefix="bench-cli-") as folder:
        env = {name: value for name, value in os.environ.items() if "CERBERUS_" not in name}
        env |= {"CERBERUS_CONFIG": f"{folder}/config", "CERBERUS_DATA": f"{folder}/data"}
        program = Path(folder) / "trivial.py"
        program.write_text(CLICK)
        commands = {
            "bare python": [sys.executable, "-c", "pass"],
            "click": [sys.executable, str(program)],
            **{f"cerberus {word}": [cerberus_command(), word] for word in GOALS},
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        failed: set[str] = set()
        for turn in range(runs + 1):
            for name, command in commands.items():
                if name in failed:
                    continue
                begun = time.perf_counter()
                done = subprocess.run(
                    command, env=env, capture_output=True, timeout=60, check=False
                )
                spent = (time.perf_counter() - begun) * 1000
                # No daemon runs here: `status` says so, with an exit code of its own.
                good = not done.returncode or name == "cerberus status"
                if not good or b"Traceback" in done.stderr:
                    print(f"{name} failed: {done.stderr.decode()[-300:]}", file=sys.stderr)
                    failed.add(name)
                if turn:  # the first compiles and fills caches
                    times[name].append(spent)
        return {name: [] if name in failed else values for name, values in times.items()}


def _table(times: dict[str, list[float]]) -> str:
    click = median(times["click"])
    rows = []
    for name, values in times.items():
        goal = GOALS.get(name.removeprefix("cerberus "))
        if not values:
            rows.append([name, "failed", "–", "–", f"≤ {goal}" if goal else "–"])
            continue
        middle = median(values)
        rows.append(
            [
                name,
                f"{middle:.0f}",
                f"{min(values):.0f}–{max(values):.0f}",
                f"{middle / click:.2f}",
                f"≤ {goal}" if goal else "–",
            ]
        )
    return page.table(["command", "ms", "least–most", "× click", "goal"], rows)


if __name__ == "__main__":
    sys.exit(main())
