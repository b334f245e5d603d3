"""`cerberus token`."""

import typer

from . import blink
from .options import Json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def token(json: Json = False) -> None:
    """Print the token that clients send as `Authorization: Bearer …`.

    The first call makes one and keeps it in config.toml.
    """
    blink.token(json)
