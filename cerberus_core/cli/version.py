"""`cerberus version`."""

import typer

from . import blink
from .options import Json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def version(json: Json = False) -> None:
    """Print the version."""
    blink.version(json)
