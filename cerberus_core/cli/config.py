"""`cerberus config`."""

import os
from typing import Annotated, Any

import typer

from .output import Json, say, say_json, warn

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def _config() -> None:
    """Show and change the settings."""


@app.command()
def path(json: Json = False) -> None:
    """Print where the settings and the data are."""
    from cerberus_core.platform import folders

    where = folders()
    if json:
        say_json({"config": str(where.config_file), "data": str(where.data)})
    else:
        say(str(where.config_file))


@app.command()
def show(json: Json = False) -> None:
    """Print the settings in force, without secrets."""
    import tomlkit

    from cerberus_core.config import load, public
    from cerberus_core.platform import folders

    loaded = load(folders(), os.environ)
    for warning in loaded.warnings:
        warn(f"! {warning}")
    values = public(loaded.config)
    if json:
        say_json(values)
    else:
        say(tomlkit.dumps(_without_none(values)).strip())


def _without_none(value: Any) -> Any:
    # TOML has no null: what is unset is left out.
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


@app.command("set")
def set_(
    key: Annotated[str, typer.Argument(help='Such as `server.port` or `models."a/b".ttl_s`.')],
    value: Annotated[str, typer.Argument(help='As in TOML: 8000, true, "text", ["a", "b"].')],
    json: Json = False,
) -> None:
    """Change one setting; comments in the file are kept."""
    from cerberus_core.config import set_value
    from cerberus_core.platform import folders

    where = folders()
    set_value(where, key, value)
    if json:
        say_json({"set": key, "file": str(where.config_file)})
    else:
        say(f"{key} is set in {where.config_file}. It takes effect at the next start.")
