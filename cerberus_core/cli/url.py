"""`cerberus url`."""

import sys

import typer

from .daemon_client import DaemonClient
from .options import Json
from .output import say, say_json, warn

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def url(json: Json = False) -> None:
    """Print a link that signs a browser in, with its QR code. Good once, for five minutes."""
    code = DaemonClient().post("/api/codes")
    if json:
        say_json(code)
        return
    say(code["url"])
    if sys.stdout.isatty():
        import segno

        segno.make(code["url"], error="l").terminal(compact=True)
    warn("The link works once and for five minutes.")
    if code["url"].startswith(("http://127.0.0.1", "http://[::1]", "http://localhost")):
        warn(
            "It leads to this machine alone. For a phone set `server.host` to 0.0.0.0 and "
            "`server.public_url` to this machine's address."
        )
