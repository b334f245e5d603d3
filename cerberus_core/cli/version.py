"""`cerberus version`."""

import typer

import cerberus_core

from .output import Json, say, say_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def version(json: Json = False) -> None:
    """Print the version."""
    if json:
        say_json({"version": cerberus_core.__version__})
    else:
        say(cerberus_core.__version__)
