"""`cerberus doctor`: what is wrong here, and what to do."""

import os
import shutil
import stat
from typing import Any

import typer

from cerberus_core.errors import CerberusError, DaemonUnreachable

from .output import Json, say, say_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)

LOW_DISK_GIB = 2


@app.command()
def doctor(json: Json = False) -> int:
    """Look at settings, folders, plugins, backends, models and the daemon. Exit 1 on a fault."""
    findings: list[dict[str, Any]] = []
    _settings(findings)
    _folders(findings)
    _plugins(findings)
    _page(findings)
    _daemon(findings)
    if json:
        say_json({"findings": findings})
    else:
        for finding in findings:
            say(f"{_MARKS[finding['state']]} {finding['what']}")
            if finding["hint"]:
                say(f"    {finding['hint']}")
    return 1 if any(finding["state"] == "fault" for finding in findings) else 0


_MARKS = {"ok": "✓", "note": "▲", "fault": "✕"}


def _find(findings: list[dict[str, Any]], state: str, what: str, hint: str | None = None) -> None:
    findings.append({"state": state, "what": what, "hint": hint})


def _settings(findings: list[dict[str, Any]]) -> None:
    from cerberus_core.config import load
    from cerberus_core.platform import folders

    file = folders().config_file
    try:
        loaded = load(folders(), os.environ)
    except CerberusError as error:
        _find(findings, "fault", error.message, error.hint)
        return
    _find(findings, "ok", f"Settings: {file}" if file.exists() else "Settings: the defaults")
    for warning in loaded.warnings:
        _find(findings, "note", warning)
    if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        _find(findings, "note", f"{file} can be read by others", f"chmod 600 '{file}'")


def _folders(findings: list[dict[str, Any]]) -> None:
    from cerberus_core.platform import folders

    data = folders().data
    existing = data
    while not existing.exists():
        existing = existing.parent
    if not os.access(existing, os.W_OK):
        _find(findings, "fault", f"{data} can't be written", "Set CERBERUS_DATA to another folder.")
        return
    free_gib = shutil.disk_usage(existing).free / (1 << 30)
    state = "ok" if free_gib >= LOW_DISK_GIB else "note"
    _find(findings, state, f"Data: {data} ({free_gib:.0f} GiB free)")


def _plugins(findings: list[dict[str, Any]]) -> None:
    import anyio

    from cerberus_core.platform import folders

    from .offline import plugins_here

    try:
        _, plugins = plugins_here(folders())
    except CerberusError:
        return  # told by _settings
    for report in plugins.reports:
        if report.state == "failed":
            _find(findings, "fault", f"Plugin {report.name}: {report.problem}", report.hint)
    if not plugins.backends:
        _find(findings, "note", "No model backend", "pip install cerberus-llamacpp")
    anyio.run(_backends, findings, plugins.backends)


async def _backends(findings: list[dict[str, Any]], backends: dict[str, Any]) -> None:
    from .offline import list_of

    for backend in backends.values():
        try:
            availability = await backend.available()
        except Exception as error:  # noqa: BLE001 - a plugin's fault is a finding
            _find(findings, "fault", f"Backend {backend.name}: {type(error).__name__}: {error}")
            continue
        state = "ok" if availability.ok else "fault"
        what = f"Backend {backend.name}"
        what += f": {availability.detail}" if availability.detail else ""
        _find(findings, state, what, availability.hint)
        if not availability.ok:
            continue
        try:
            models = await list_of(backend)
        except CerberusError as error:
            _find(findings, "fault", f"Backend {backend.name}: {error.message}", error.hint)
            continue
        good = [model for model in models if model.problem is None]
        hint = None if good else "`cerberus models pull starter` fetches a small one."
        count = f"{len(good)} model" + ("" if len(good) == 1 else "s")
        _find(findings, "ok" if good else "note", f"  {count}", hint)
        for model in models:
            if model.problem is not None:
                _find(findings, "note", f"  {model.id}: {model.problem}")


def _page(findings: list[dict[str, Any]]) -> None:
    from pathlib import Path

    import cerberus_core

    if not (Path(cerberus_core.__file__).parent / "web_dist" / "index.html").is_file():
        _find(findings, "note", "The page is not built", "scripts/web build")


def _daemon(findings: list[dict[str, Any]]) -> None:
    from .daemon_client import DaemonClient

    try:
        status = DaemonClient().get("/api/status")
    except DaemonUnreachable as error:
        _find(findings, "note", error.message, error.hint)
    except CerberusError as error:
        _find(findings, "fault", f"The daemon: {error.message}", error.hint)
    else:
        _find(findings, "ok", f"The daemon answers at {status['url']}")
        for warning in status["warnings"]:
            _find(findings, "note", warning)
