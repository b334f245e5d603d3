"""`cerberus models`: list, pull, load, unload and remove."""

import sys
import time
from typing import Annotated, Any

import typer

from .daemon_client import DaemonClient, model_path
from .output import Json, printable, say, say_json, warn

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A model's id, alias or unique bare name.")]


@app.callback()
def _models() -> None:
    """List, pull, load, unload and remove models."""


@app.command("ls")
def ls(json: Json = False) -> None:
    """List the models. Works without the daemon."""
    from cerberus_core.errors import DaemonUnreachable

    try:
        models = DaemonClient().get("/api/models")["models"]
    except DaemonUnreachable:
        models = _list_here()
    if json:
        say_json({"models": models})
    elif models:
        _table(models)
    else:
        say("There are no models yet. `cerberus models pull starter` fetches a small one.")


def _list_here() -> list[dict[str, Any]]:
    import anyio
    import msgspec

    from cerberus_core.platform import folders

    from .offline import models_here, plugins_here

    _, plugins = plugins_here(folders())
    models: list[dict[str, Any]] = msgspec.to_builtins(anyio.run(models_here, plugins))
    return models


def _table(models: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("MODEL", "left"), ("STATE", "left"), ("SIZE", "right"), ("CONTEXT", "right"),
        ("CAN", "left"), ("NOTE", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name == "MODEL")  # type: ignore[arg-type]
    for model in models:
        broken = model["problem"] is not None
        state = "✕ broken" if broken else _STATES.get(model["state"], model["state"])
        can = " ".join(sorted(set(model["capabilities"]) - {"completion"}))
        note = model["problem"] or model["failure"] or model["detail"] or ""
        cells = [model["id"], state, _size(model["size_mib"]), _number(model["ctx"]), can, note]
        table.add_row(*[Text(_one_line(cell)) for cell in cells])  # names are text, not markup
    Console(width=None if sys.stdout.isatty() else 200).print(table)


_STATES = {
    "unloaded": "○ unloaded",
    "loading": "◐ loading",
    "ready": "✓ ready",
    "draining": "◐ draining",
    "failed": "✕ failed",
}


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\N{REPLACEMENT CHARACTER}")


def _size(mib: int | None) -> str:
    if mib is None:
        return "—"
    return f"{mib} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def _number(value: int | None) -> str:
    return "—" if value is None else str(value)


@app.command()
def pull(
    ref: Annotated[
        str,
        typer.Argument(help="`starter`, `org/repo`, `org/repo:quant`, or `backend:ref`."),
    ],
    json: Json = False,
) -> None:
    """Fetch a model. Works without the daemon; goes on where it was broken off."""
    import anyio
    import msgspec

    from cerberus_core.platform import folders

    from .offline import backend_for_pull, plugins_here
    from .progress import Bars

    _, plugins = plugins_here(folders())
    backend, its_ref = backend_for_pull(list(plugins.backends.values()), ref)
    with Bars(quiet=json) as bars:
        model = anyio.run(backend.pull, its_ref, bars.report)
    if json:
        say_json(msgspec.to_builtins(model))
    else:
        say(f"{model.id} is here ({_size(model.size_mib)}).")


@app.command()
def load(name: Name, json: Json = False) -> None:
    """Load a model now, and wait until it is ready."""
    began = time.monotonic()
    if not json:
        warn(f"Loading {name} …")
    model = DaemonClient().post(model_path("load", name), timeout=None)
    if json:
        say_json(model)
    else:
        say(f"{model['id']} is ready after {time.monotonic() - began:.1f} s.")


@app.command()
def unload(name: Name, json: Json = False) -> None:
    """Unload a model once its requests are done."""
    model = DaemonClient().post(model_path("unload", name), timeout=None)
    if json:
        say_json(model)
    else:
        say(f"{model['id']} is unloaded.")


@app.command()
def rm(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    json: Json = False,
) -> None:
    """Delete a model's files. Works without the daemon."""
    from cerberus_core.errors import CerberusError, DaemonUnreachable

    if not yes:
        if not sys.stdin.isatty():
            raise CerberusError(f"Deleting {name} needs a yes", hint="Add --yes.", code="usage")
        typer.confirm(f"Delete the files of {name}?", abort=True)
    try:
        DaemonClient().delete(model_path("", name))
    except DaemonUnreachable:
        _remove_here(name)
    if json:
        say_json({"removed": name})
    else:
        say(f"{name} is deleted.")


def _remove_here(name: str) -> None:
    import anyio

    from cerberus_core.platform import folders

    from .offline import find_here, plugins_here

    async def remove() -> None:
        backend, model = await find_here(plugins, name)
        await backend.remove(model)

    _, plugins = plugins_here(folders())
    anyio.run(remove)
