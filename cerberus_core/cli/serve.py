"""`cerberus serve`."""

import contextlib
import gc
import os
import threading
from typing import Annotated

import typer

from .address import parse_address
from .loop import run_async
from .options import Json
from .output import say, say_json, warn

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; `host:port` works too. [default: 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 for any free one. [default: 7733]", min=0, max=65535)
    ] = None,
    json: Json = False,
) -> None:
    """Run the daemon in the foreground. Ctrl-C stops it."""
    if host is not None:
        host, port_of_host = parse_address(host)
        port = port if port is not None else port_of_host

    from cerberus_core import daemon
    from cerberus_core.platform import folders

    from .greeting import greeting
    from .logs import set_up
    from .typed import command_as_typed, typed

    log = set_up()

    def on_listening(told: daemon.Listening) -> None:
        # What was made at the start stays: the collector need not walk it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        with contextlib.suppress(OSError):  # nobody may be reading; that is no reason to end
            greet(told)
        log.let_go()

    def greet(told: daemon.Listening) -> None:
        if json:
            say_json({"url": told.url, "model": told.model, "warnings": told.warnings})
            return
        for warning in told.warnings:
            warn(typed(f"! {warning}", anywhere=True))
        say(greeting(told.url, told.model, command_as_typed(anywhere=True)))
        # Asking other engines takes a moment, in which requests are to be answered.
        threading.Thread(target=_offer, name="offers", daemon=True).start()

    def on_stopping(running: int) -> None:
        waits = f"; {running} still answering (Ctrl-C again cuts off)" if running else ""
        warn(f"Stopping{waits}")

    try:
        run_async(
            lambda: daemon.serve(
                folders(),
                host=host,
                port=port,
                env=os.environ,
                on_listening=on_listening,
                on_stopping=on_stopping,
            ),
            use_uvloop=_has_uvloop(),
        )
    finally:
        log.let_go()  # what is held where the start failed


def _offer() -> None:
    """Say what else has models on this machine, where there is no more than the starter."""
    from cerberus_core.errors import CerberusError

    from .daemon_client import DaemonClient
    from .nearby import look

    with contextlib.suppress(CerberusError, OSError):
        daemon = DaemonClient()
        if len(daemon.get("/api/models")["models"]) > 1:
            return
        for offer in look(daemon.get("/api/plugins")["plugins"], anywhere=True):
            say(f"  {offer.what}. To take that in: {offer.command}")


def _has_uvloop() -> bool:
    from importlib.util import find_spec

    return find_spec("uvloop") is not None
