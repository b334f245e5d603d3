"""python -m benchmarks.gateway: measure, print the table, keep it with --write."""

import argparse
import json
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks import page

from . import litellm
from .measure import SCENARIOS, Figures, measured
from .programs import load, upstream
from .report import gateway_table
from .targets import TARGETS, Target, cerberus_command, nginx_binary


def main() -> int:
    options = _options()
    names = options.only.split(",")
    unknown = set(names) - set(TARGETS)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
        return 2
    if options.nice:
        os.setpriority(os.PRIO_PROCESS, 0, options.nice)  # and so of all that is started here
    try:
        runs, idle = _run(names, options.alternations, options.scale)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    text = f"{gateway_table(runs, idle)}\n\n{_circumstances(names, options)}"
    print(text)
    if options.json:
        Path(options.json).write_text(json.dumps({"idle_mib": idle, "runs": runs}, indent=1))
    if options.write:
        page.write("gateway", text)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--only", default=",".join(TARGETS), help="rows, with commas")
    parser.add_argument("--alternations", type=int, default=5, choices=range(1, 51), metavar="N")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every duration")
    parser.add_argument("--nice", type=int, default=0, help="of all processes; below 0 needs root")
    parser.add_argument("--write", action="store_true", help="keep the table in README.md")
    parser.add_argument("--json", metavar="FILE", help="every figure of every run")
    options = parser.parse_args()
    options.scale = min(max(options.scale, 0.05), 10.0)
    return options


def _run(
    names: list[str], alternations: int, scale: float
) -> tuple[dict[str, list[Figures]], dict[str, float]]:
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    begun = time.monotonic()
    with ExitStack() as stack:
        port = stack.enter_context(upstream())
        targets = [stack.enter_context(TARGETS[name](port)) for name in names]
        idle = {target.name: _idle(target) for target in targets}
        for alternation in range(alternations):
            figures: dict[str, Figures] = {name: {} for name in names}
            # Each begins in turn, so that a slow minute of the machine hits all alike.
            turn = alternation % len(targets)
            for scenario in SCENARIOS:
                for target in targets[turn:] + targets[:turn]:
                    figures[target.name] |= measured(target, scenario, scale)
            for name in names:
                runs[name].append(figures[name])
            spent = time.monotonic() - begun
            print(f"alternation {alternation + 1} of {alternations}, {spent:.0f} s", flush=True)
    return runs, idle


def _idle(target: Target) -> float:
    """Memory after the first answers, which load what is loaded late."""
    load(
        target.port,
        target.model,
        target.token,
        wire=target.wire,
        clients=1,
        seconds=0.2,
        warmup_s=0,
    )
    return target.rss_mib()


def _circumstances(names: list[str], options: argparse.Namespace) -> str:
    versions = [f"{page.first_line(['gcc', '--version']) or 'gcc'}"]
    binary = nginx_binary()
    if "nginx" in names and binary:
        versions.append(str(page.first_line([binary, "-v"])).removeprefix("nginx version: "))
    if "cerberus" in names:
        versions.append(f"cerberus {page.first_line([cerberus_command(), 'version'])}")
    if "litellm" in names:
        versions.append(f"litellm {litellm.VERSION}")
    scale = "" if options.scale == 1 else f", durations × {options.scale:g}"
    if options.nice:
        scale += f", nice {options.nice}"
    what = "; ".join(f"{scenario.name}: {scenario.what}" for scenario in SCENARIOS)
    return (
        f"{page.circumstances(versions)} Medians of {options.alternations} alternations{scale}. "
        f"{what}."
    )


if __name__ == "__main__":
    sys.exit(main())
