"""`cerberus status`."""

from typing import Annotated

import typer

from cerberus_core.errors import DaemonUnreachable

from . import blink
from .daemon_client import START, DaemonClient
from .options import Json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def status(
    json: Json = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print it again whenever something happens.")
    ] = False,
) -> None:
    """Show what the daemon is doing."""
    if not follow:
        blink.status(json)
        return
    daemon = DaemonClient()
    blink.show_status(daemon.get("/api/status"), as_json=json, follow=True)
    for line in daemon.lines("GET", "/api/events"):
        if line.startswith(b"data:"):
            blink.show_status(daemon.get("/api/status"), as_json=json, follow=True)
    raise DaemonUnreachable("The daemon has stopped", hint=START)
