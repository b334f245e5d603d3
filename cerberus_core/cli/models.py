"""`cerberus models`: list, pull, load, unload, remove and import."""

import sys
import time
from typing import Annotated, Any

import typer

from .daemon_client import DaemonClient, model_path
from .loop import run_async
from .options import Json
from .output import say, say_json, warn
from .typed import typed

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A model's id, alias or unique bare name.")]


@app.callback()
def _models() -> None:
    """List, pull, load, unload, remove and import models."""


@app.command("ls")
def ls(json: Json = False) -> None:
    """List the models. Works without the daemon."""
    from cerberus_core.errors import DaemonUnreachable

    try:
        daemon = DaemonClient()
        listed = daemon.get("/api/models")
        models, fits = listed["models"], listed["fits"]
        warnings = daemon.get("/api/status")["warnings"]
        reports = [] if models else daemon.get("/api/plugins")["plugins"]
    except DaemonUnreachable:
        models, fits, warnings, reports = _list_here()
    for warning in warnings:
        warn(typed(f"! {warning}"))
    offers = [] if models else _offers(reports)
    if json:
        say_json({"models": models, "fits": fits, "offers": offers})
    elif models:
        _table(models, fits)
    else:
        say(typed("There are no models yet. `cerberus models pull starter` fetches a small one."))
        for offer in offers:
            say(f"{offer['what']}. To take that in:")
            say(f"    {offer['command']}")


def _offers(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    import attrs

    from .nearby import look

    return [attrs.asdict(offer) for offer in look(reports)]


def _list_here() -> tuple[list[dict[str, Any]], dict[str, Any], list[str], list[dict[str, Any]]]:
    import msgspec

    from cerberus_core.platform import folders

    from .offline import look_here

    here = look_here(folders())

    async def listed() -> tuple[list[dict[str, Any]], dict[str, Any], list[str]]:
        async with here.manager() as manager:
            models = msgspec.to_builtins(await manager.models())
            fits = msgspec.to_builtins(await manager.fits())
            return models, fits, [*here.warnings, *manager.warnings()]

    return *run_async(listed), msgspec.to_builtins(here.plugins.reports)


def _table(models: list[dict[str, Any]], fits: dict[str, Any]) -> None:
    from .table import Column, print_table

    columns = [
        Column("MODEL", long=True), Column("STATE"), Column("SIZE", right=True),
        Column("CONTEXT\n/ TRAINED", right=True), Column("CAN"), Column("FITS"),
    ]  # fmt: skip
    rows, notes = [], []
    for model in models:
        broken = model["problem"] is not None
        state = "✕ broken" if broken else _STATES.get(model["state"], model["state"])
        if model["waits_for"]:
            state = "◌ waiting"
        can = " ".join(sorted(set(model["capabilities"]) - {"completion"}))
        note = model["problem"] or model["failure"] or _loading(model) or model["detail"] or ""
        context = f"{_number(model['loaded_ctx'])} / {_number(model['ctx'])}"
        size, fits_it = _size(model["size_mib"]), _fits(fits.get(model["id"]))
        rows.append([model["id"], state, size, context, can, fits_it])
        notes.append(note)
    print_table(columns, rows, notes)


_STATES = {
    "unloaded": "○ unloaded",
    "loading": "◐ loading",
    "ready": "✓ ready",
    "draining": "◐ draining",
    "failed": "✕ failed",
}


def _loading(model: dict[str, Any]) -> str | None:
    if model["waits_for"]:
        return f"waits for {', '.join(model['waits_for'])}"
    return None if model["eta_s"] is None else f"about {model['eta_s']:.0f} s left"


def _size(mib: int | None) -> str:
    if mib is None:
        return "—"
    return f"{mib} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def _fits(fit: dict[str, Any] | None) -> str:
    """A few words: who would leave is `models plan`'s to say."""
    if fit is None:
        return "—"
    others = len(fit["others"])
    words = {
        "loaded": "loaded",
        "yes": "yes",
        "after": f"yes, {others} leave{'s' if others == 1 else ''}",
        "waits": f"waits for {others}",
        "oversize": "oversize",
        "unknown": "?",
    }
    if fit["says"] in words:
        return words[fit["says"]]
    return f"no: {_short(fit['short_mib'])} short" if fit["short_mib"] else "no: pinned"


def _short(mib: int) -> str:
    return _size(mib) if mib < 10 * 1024 else f"{mib / 1024:.0f} GiB"


def _number(value: int | None) -> str:
    return "—" if value is None else str(value)


@app.command()
def pull(
    ref: Annotated[
        str,
        typer.Argument(help="`starter`, `org/repo`, `org/repo:quant`, or `backend:ref`."),
    ],
    if_none: Annotated[
        bool, typer.Option("--if-none", help="Only where there is no model to chat with.")
    ] = False,
    json: Json = False,
) -> None:
    """Fetch a model. Works without the daemon; goes on where it was broken off."""
    import msgspec

    from cerberus_core.platform import folders

    from .offline import backend_for_pull, look_here, usable, warn_all
    from .progress import Bars

    here = look_here(folders())

    async def fetch() -> Any:
        async with here.manager() as manager:
            there = usable(await manager.models()) if if_none else None
            if there is not None:
                return there
            warn_all(here.warnings)
            backend, its_ref = backend_for_pull(list(here.plugins.backends.values()), ref)
            with Bars(quiet=json) as bars:
                return await backend.pull(its_ref, bars.report)

    model = run_async(fetch)
    if isinstance(model, str):
        if json:
            say_json({"there": model})
        return
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
def plan(name: Name, json: Json = False) -> None:
    """Show what loading a model would take and do, without doing it."""
    told = DaemonClient().post(model_path("plan", name))
    if json:
        say_json(told)
        return
    takes = ", ".join(f"{_size(mib)} of {pool}" for pool, mib in told["footprint"].items())
    say(f"{told['model']} takes {takes or 'nobody knows how much'} ({told['source']}).")
    if told["load_s"] is not None:
        say(f"  loading     about {told['load_s']:.1f} s, from earlier loads")
    for pool in told["pools"]:
        free, budget = _size(pool["free_mib"]), _size(pool["budget_mib"])
        say(f"  {pool['name']:11} {free} free of {_size(pool['total_mib'])}, {budget} for models")
    for leaving in told["evict"]:
        say(f"  leaves      {leaving['model']}: {leaving['why']}")
    if told["loaded"]:
        say("  It is loaded.")
    elif told["waits_for"]:
        say(f"  It would wait for {', '.join(told['waits_for'])}, in use now.")
    elif told["why"]:
        say(f"  It can't be loaded: {told['why']}.")
    elif told["missing"]:
        lacks = " and ".join(f"{_size(mib)} of {pool}" for pool, mib in told["missing"].items())
        say(f"  It lacks {lacks} and is loaded all the same: it may be oversize.")
    else:
        say("  It can be loaded now.")


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
        found = _id_of(name)
        if not sys.stdin.isatty():
            raise CerberusError(f"Deleting {found} needs a yes", hint="Add --yes.", code="usage")
        typer.confirm(f"Delete the files of {found}?", abort=True)
    try:
        DaemonClient().delete(model_path("", name))
    except DaemonUnreachable:
        _remove_here(name)
    if json:
        say_json({"removed": name})
    else:
        say(f"{name} is deleted.")


def _id_of(name: str) -> str:
    """The whole id behind any of a model's names. Raises `ModelNotFound`."""
    from urllib.parse import quote

    from cerberus_core.errors import DaemonUnreachable

    try:
        return str(DaemonClient().get(f"/v1/models/{quote(name)}")["id"])
    except DaemonUnreachable:
        from cerberus_core.platform import folders

        from .offline import look_here

    here = look_here(folders())

    async def find() -> str:
        async with here.manager() as manager:
            return (await manager.model(name)).id

    return run_async(find)


def _remove_here(name: str) -> None:
    from cerberus_core.platform import folders

    from .offline import look_here, warn_all

    here = look_here(folders())
    warn_all(here.warnings)

    async def remove() -> None:
        async with here.manager() as manager:
            await manager.remove(name)

    run_async(remove)


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(help="A config.yaml of llama-swap.")],
    write: Annotated[bool, typer.Option("--write", help="Save the settings.")] = False,
    json: Json = False,
) -> None:
    """Show the models of a llama-swap config as settings; --write saves them."""
    import os
    from pathlib import Path

    from cerberus_core.config import load, set_value
    from cerberus_core.platform import folders

    from .llama_swap import dotted, lines, read, text, translate

    told = translate(read(Path(file)), os.environ)
    where = folders()
    known = load(where, os.environ).config.plugins.get("llamacpp", {}).get("folders", [])
    fresh = [folder for folder in told.folders if folder not in known]
    settings = dict(told.settings)
    if fresh:
        settings = {("plugins", "llamacpp", "folders"): [*known, *fresh], **settings}
    if write:
        for key, value in settings.items():
            set_value(where, dotted(key), text(value))
    if json:
        say_json({
            "settings": {dotted(key): value for key, value in settings.items()},
            "notes": told.notes,
            "written": write,
        })  # fmt: skip
        return
    for line in lines(settings):
        say(line)
    for note in told.notes:
        warn(f"! {note}")
    if not settings:
        say("There is nothing to set.")
    elif write:
        say(f"This is set in {where.config_file}. A running daemon takes up what it can;")
        say("`cerberus config diff` shows what waits for its next start.")
    else:
        say(typed("Nothing is written yet: `cerberus models import FILE --write` saves it."))
