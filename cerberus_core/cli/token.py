"""`cerberus token`."""

import typer

from cerberus_core.config import quick
from cerberus_core.platform.paths import folders

from .output import Json, say, say_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def token(json: Json = False) -> None:
    """Print the token that clients send as `Authorization: Bearer …`.

    The first call makes one and keeps it in config.toml.
    """
    where = folders()
    value = quick.read(where).token
    if value is None:
        from cerberus_core.config import ensure_token

        value = ensure_token(where)
    if json:
        say_json({"token": value})
    else:
        say(value)
