"""`cerberus serve`."""

import contextlib
import gc
import os
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from .address import parse_address
from .output import Json, say, say_json, warn

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

    from .greeting import command_as_typed, greeting
    from .logs import set_up

    set_up()

    def on_listening(told: daemon.Listening) -> None:
        # What was made at the start stays: the collector need not walk it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        with contextlib.suppress(OSError):  # nobody may be reading; that is no reason to end
            greet(told)

    def greet(told: daemon.Listening) -> None:
        if json:
            say_json({"url": told.url, "model": told.model, "warnings": told.warnings})
            return
        for warning in told.warnings:
            warn(f"! {warning}")
        say(greeting(told.url, told.model, command_as_typed()))

    def on_stopping(running: int) -> None:
        waits = f"; {running} still answering (Ctrl-C again cuts off)" if running else ""
        warn(f"Stopping{waits}")

    _run(
        lambda: daemon.serve(
            folders(),
            host=host,
            port=port,
            env=os.environ,
            on_listening=on_listening,
            on_stopping=on_stopping,
        )
    )


def _run(main: "Callable[[], Awaitable[None]]") -> None:
    import anyio

    from cerberus_core.errors import CerberusError

    try:
        anyio.run(main, backend_options={"use_uvloop": _has_uvloop()})
    except BaseExceptionGroup as group:
        # Task groups wrap what they let through; an error of ours is told as itself.
        ours = group.subgroup(CerberusError)
        if ours is None:
            raise
        error: BaseException = ours
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def _has_uvloop() -> bool:
    from importlib.util import find_spec

    return find_spec("uvloop") is not None
