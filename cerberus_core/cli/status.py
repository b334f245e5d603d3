"""`cerberus status`."""

import json as jsonlib
from typing import Annotated, Any

import typer

from cerberus_core.errors import DaemonUnreachable

from .daemon_client import START, DaemonClient
from .output import Json, say, say_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def status(
    json: Json = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print it again whenever something happens.")
    ] = False,
) -> None:
    """Show what the daemon is doing."""
    daemon = DaemonClient()
    _show(daemon.get("/api/status"), as_json=json, follow=follow)
    if follow:
        for line in daemon.lines("GET", "/api/events"):
            if line.startswith(b"data:"):
                _show(daemon.get("/api/status"), as_json=json, follow=True)
        raise DaemonUnreachable("The daemon has stopped", hint=START)


def _show(status: dict[str, Any], *, as_json: bool, follow: bool) -> None:
    if as_json and follow:
        say(jsonlib.dumps(status, ensure_ascii=False))  # one line each, for bars
    elif as_json:
        say_json(status)
    elif follow:
        say(
            f"{status['models_loaded']} of {status['models']} models loaded, "
            f"{status['requests_in_flight']} requests running, {status['requests_total']} done"
        )
    else:
        say(f"Cerberus {status['version']} at {status['url']} (pid {status['pid']})")
        say(f"  up          {_duration(status['uptime_s'])}")
        say(f"  models      {status['models_loaded']} of {status['models']} loaded")
        running, total = status["requests_in_flight"], status["requests_total"]
        say(f"  requests    {running} running, {total} since the start")
        if status["plugins_failed"]:
            _say_typed(
                f"  plugins     {status['plugins_failed']} failed: `cerberus plugins` says why"
            )
        for warning in status["warnings"]:
            _say_typed(f"  ! {warning}")


def _say_typed(line: str) -> None:
    from .typed import typed  # not before there is something wrong to tell

    say(typed(line))


def _duration(seconds: int) -> str:
    minutes, s = divmod(seconds, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    parts = [(days, "d"), (h, "h"), (m, "min"), (s, "s")]
    shown = [f"{value} {unit}" for value, unit in parts if value][:2]
    return " ".join(shown) or "0 s"
