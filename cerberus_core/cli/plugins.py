"""`cerberus plugins`."""

from typing import Any

import typer

from cerberus_core.errors import DaemonUnreachable

from .daemon_client import DaemonClient
from .options import Json
from .output import say, say_json, warn
from .typed import install_as_typed, typed

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def plugins(json: Json = False) -> None:
    """Show what was loaded and what failed, why, and what to do. Works without the daemon."""
    try:
        reports = DaemonClient().get("/api/plugins")["plugins"]
        _tell_new(reports)
    except DaemonUnreachable:
        reports = _reports_here()
    if json:
        say_json({"plugins": reports})
    elif not reports:
        install = install_as_typed("cerberus-llamacpp")
        say(f"No plugins are installed. `{install}` brings local models.")
    for report in [] if json else reports:
        _show(report)


def _tell_new(reports: list[dict[str, Any]]) -> None:
    """What is installed here, and wasn't when the daemon started, which is whose list it is."""
    from cerberus_core.loading import installed_plugins

    known = {(report["name"], report["version"]) for report in reports}
    for name, version in installed_plugins():
        if (name, version) not in known:
            warn(
                f"! {' '.join(filter(None, (name, version)))} is installed, but not in the daemon "
                "that runs: start it anew to load it."
            )


def _show(report: dict[str, Any]) -> None:
    mark = {"loaded": "✓", "failed": "✕", "blocked": "○"}[report["state"]]
    source = " ".join(part for part in (report["distribution"], report["version"]) if part)
    provides = ", ".join(report["provides"]) or "nothing"
    told = provides if report["state"] == "loaded" else report["problem"] or report["state"]
    say(f"{mark} {report['name']} ({source or 'unknown origin'}): {told}")
    if report["hint"] and report["state"] != "loaded":
        say(typed(f"    {report['hint']}"))


def _reports_here() -> list[dict[str, Any]]:
    import msgspec

    from cerberus_core.platform import folders

    from .offline import look_here, warn_all

    here = look_here(folders())
    warn_all(here.warnings)
    reports: list[dict[str, Any]] = msgspec.to_builtins(here.plugins.reports)
    return reports
