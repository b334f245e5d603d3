"""`cerberus doctor`: what is wrong here, and what to do.

A running daemon is asked how it sees plugins and models: it may have been
started in another environment than this one.
"""

import os
import shutil
import stat
from typing import Any

import typer

from cerberus_core.errors import CerberusError, DaemonUnreachable

from .loop import run_async
from .options import Json
from .output import say, say_json
from .typed import install_as_typed, typed

app = typer.Typer(add_completion=False, rich_markup_mode=None)

LOW_DISK_GIB = 2
_MARKS = {"ok": "✓", "note": "▲", "fault": "✕"}
_BRINGS = "`{}` brings cerberus-llamacpp, unless it is blocked."
_NO_MODEL = "`cerberus models pull starter` fetches a small one."


@app.command()
def doctor(json: Json = False) -> int:
    """Look at settings, folders, plugins, backends, models and the daemon. Exit 1 on a fault."""
    findings = Findings()
    _settings(findings)
    _folders(findings)
    _page(findings)
    if not _ask_daemon(findings):
        _look_here(findings)
    if json:
        say_json({"findings": findings.rows})
    else:
        for row in findings.rows:
            say(f"{_MARKS[row['state']]} {row['what']}")
            if row["hint"]:
                say(f"    {row['hint']}")
    return 1 if any(row["state"] == "fault" for row in findings.rows) else 0


class Findings:
    """What was found; the same thing once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, state: str, what: str, hint: str | None = None) -> None:
        """`state` is ok, note or fault."""
        if all(row["what"] != what for row in self.rows):
            hint = typed(hint) if hint else None
            self.rows.append({"state": state, "what": typed(what), "hint": hint})

    def error(self, error: CerberusError, before: str = "") -> None:
        self.add("fault", f"{before}{error.message}", error.hint)


def _settings(findings: Findings) -> None:
    from cerberus_core.config import load
    from cerberus_core.platform import folders

    file = folders().config_file
    try:
        loaded = load(folders(), os.environ)
    except CerberusError as error:
        findings.error(error)
        return
    findings.add("ok", f"Settings: {file}" if file.exists() else "Settings: the defaults")
    for warning in loaded.warnings:
        findings.add("note", warning)
    if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        findings.add("note", f"{file} can be read by others", f"chmod 600 '{file}'")


def _folders(findings: Findings) -> None:
    from cerberus_core.platform import folders

    data = folders().data
    existing = data
    while not existing.exists():
        existing = existing.parent
    if not os.access(existing, os.W_OK):
        findings.add("fault", f"{data} can't be written", "Set CERBERUS_DATA to another folder.")
        return
    free_gib = shutil.disk_usage(existing).free / (1 << 30)
    state = "ok" if free_gib >= LOW_DISK_GIB else "note"
    findings.add(state, f"Data: {data} ({free_gib:.0f} GiB free)")


def _page(findings: Findings) -> None:
    from pathlib import Path

    import cerberus_core

    if not (Path(cerberus_core.__file__).parent / "web_dist" / "index.html").is_file():
        findings.add("note", "The page is not built", "scripts/web build")


def _ask_daemon(findings: Findings) -> bool:
    """How the running daemon sees plugins and models; False where none runs."""
    from .daemon_client import DaemonClient

    try:
        daemon = DaemonClient()
        status = daemon.get("/api/status")
        plugins = daemon.get("/api/plugins")["plugins"]
        models = daemon.get("/api/models")
        meters = daemon.get("/api/gpus")
    except DaemonUnreachable as error:
        findings.add("note", error.message, error.hint)
        return False
    except CerberusError as error:
        findings.error(error, "The daemon: ")
        return True
    findings.add("ok", f"The daemon answers at {status['url']}; what follows is how it sees things")
    _plugins(findings, plugins)
    told = _models(findings, plugins, models["models"], models["problems"])
    _meters(findings, meters)
    for warning in status["warnings"]:
        if warning not in told:
            findings.add("note", warning)
    _nearby(findings, plugins)
    return True


def _look_here(findings: Findings) -> None:
    import msgspec

    from cerberus_core.platform import folders

    from .offline import look_here

    async def listed() -> tuple[list[Any], list[Any], list[str]]:
        async with here.manager() as manager:
            models = msgspec.to_builtins(await manager.models())
            problems = msgspec.to_builtins(list(manager.problems.values()))
            return models, problems, manager.warnings()

    try:
        here = look_here(folders())
    except CerberusError as error:
        findings.error(error)  # of settings it is told already
        return
    plugins = msgspec.to_builtins(here.plugins.reports)
    findings.add("ok", "What follows is seen from here, with this terminal's environment")
    _plugins(findings, plugins)
    for warning in here.warnings:
        findings.add("note", warning)
    models, problems, warnings = run_async(listed)
    told = _models(findings, plugins, models, problems)
    _meters(findings, msgspec.to_builtins(run_async(here.gpus), str_keys=True))
    for warning in warnings:
        if warning not in told:
            findings.add("note", warning)
    _nearby(findings, plugins)


def _nearby(findings: Findings, reports: list[dict[str, Any]]) -> None:
    """Engines that run here and folders of other programs that could be taken in."""
    from .nearby import look

    for offer in look(reports):
        findings.add("note", offer.what, offer.command)


def _plugins(findings: Findings, reports: list[dict[str, Any]]) -> None:
    for report in reports:
        if report["state"] == "failed":
            findings.add("fault", f"Plugin {report['name']}: {report['problem']}", report["hint"])
    if not _backends(reports):
        install = install_as_typed("cerberus-llamacpp")
        findings.add("note", "No model backend", _BRINGS.format(install))


def _backends(reports: list[dict[str, Any]]) -> list[str]:
    words = [word for report in reports for word in report["provides"]]
    return [word.removeprefix("backend ") for word in words if word.startswith("backend ")]


def _models(
    findings: Findings,
    reports: list[dict[str, Any]],
    models: list[dict[str, Any]],
    problems: list[dict[str, Any]],
) -> set[str]:
    """Each backend with what it has; the warnings that are told with it."""
    from cerberus_core.values import Problem

    told = set()
    for problem in problems:
        findings.add("fault", f"Backend {problem['backend']}: {problem['what']}", problem["hint"])
        told.add(str(Problem(**problem)))
    failing = {problem["backend"] for problem in problems}
    for name in _backends(reports):
        own = [model for model in models if model["backend"] == name]
        good = [model for model in own if model["problem"] is None]
        if name not in failing:
            count = f"{len(good)} model" + ("" if len(good) == 1 else "s")
            findings.add("ok" if good else "note", f"Backend {name}: {count}")
        for model in own:
            if model["problem"] is not None:
                findings.add("note", f"{model['id']}: {model['problem']}")
    if not any(model["problem"] is None for model in models):
        findings.add("note", "There is no model that can be used", _NO_MODEL)
    return told


def _meters(findings: Findings, snapshot: dict[str, Any]) -> None:
    """Each GPU, each energy meter, and why one can't be read."""
    for meter in snapshot["meters"]:
        name, state = meter["name"], meter["state"]
        what = f"{'GPUs' if meter['measures'] == 'gpu' else 'Energy'} by {name}: "
        findings.add(
            "ok" if state["ok"] else "note", what + (state["detail"] or "ready"), state["hint"]
        )
        for warning in state["warnings"]:
            findings.add("note", what + warning)
