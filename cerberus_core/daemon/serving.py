"""From the settings to a server that takes requests, and down again."""

import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
import attrs
from anyio.to_thread import run_sync as in_thread

from cerberus_core.api import Services, build
from cerberus_core.api.server import Server
from cerberus_core.errors import CerberusError
from cerberus_core.platform import Clock, Folders, SystemClock
from cerberus_core.platform.limits import raise_open_files
from cerberus_core.platform.listening import listen, url_of

from .hangup import reload_on_hangup
from .owner import sole_owner, write_daemon_file
from .rooms import running
from .settings import Source
from .stopping import Stopping, stop_on_signal, stop_when

ANNOUNCE_S = 2.0
"""How long the word that we listen waits for the backends' lists of models."""
STOP_GRACE_S = 5
"""Seconds that running answers get when the daemon is asked to stop."""


@attrs.frozen(kw_only=True)
class Listening:
    """What is told once requests are taken."""

    url: str
    warnings: list[str]
    model: str | None
    """One to try a chat with; None where there is none (yet)."""


async def serve(
    folders: Folders,
    *,
    host: str | None = None,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
    on_listening: Callable[[Listening], None] = lambda _: None,
    on_stopping: Callable[[int], None] = lambda _: None,
    clock: Clock | None = None,
    stop: anyio.Event | None = None,
) -> None:
    """Run until SIGINT, SIGTERM or `stop`. `host` and `port` win over the settings.

    `env` are the variables that may override settings; None: the file alone.
    `on_listening` is called once requests are taken, `on_stopping` with the number of
    running answers when a signal came. Raises `ConfigError`,
    `AlreadyRunning`, `AddressRefused`.
    """
    raise_open_files()
    stopping = Stopping(on_stopping)
    failure: CerberusError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop_on_signal, stopping)
        if stop is not None:
            tasks.start_soon(stop_when, stop, stopping)
        try:
            with stopping.start:
                source = Source(folders=folders, env=env, host=host, port=port)
                await _serve(source, on_listening, clock or SystemClock(), stopping)
        except CerberusError as error:
            failure = error  # raised below, where no group is put around it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _serve(
    source: Source,
    on_listening: Callable[[Listening], None],
    clock: Clock,
    stopping: Stopping,
) -> None:
    folders = source.folders
    first = await in_thread(source.read)
    address = first.config.server
    async with sole_owner(folders), _listening(address.host, address.port) as sock:
        start = await in_thread(source.start, first)
        url = url_of(sock)
        async with running(folders, start, url, clock) as services:
            server = Server(
                await in_thread(build, services),
                grace_s=STOP_GRACE_S,
                before_shutdown=services.bus.close,
                after_startup=lambda: in_thread(write_daemon_file, folders, url),
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_announce, server, services, on_listening)
                tasks.start_soon(reload_on_hangup, services.settings, stopping)
                stopping.serving(server, services.gateway.requests.__len__)
                try:
                    await server.serve(sockets=[sock])
                finally:
                    await server.close(sock)
                tasks.cancel_scope.cancel()


async def _announce(
    server: Server,
    services: Services,
    on_listening: Callable[[Listening], None],
) -> None:
    """Say where we listen; a slow backend does not hold the word back for long."""
    await server.listening.wait()
    with anyio.move_on_after(ANNOUNCE_S):
        await services.manager.models()
    failed = [
        f"plugin {report.name}: {report.problem}"
        for report in services.plugins
        if report.state == "failed"
    ]
    on_listening(
        Listening(
            url=services.url(),
            warnings=[*services.warnings(), *failed, *services.manager.warnings()],
            model=services.manager.default(),
        )
    )


@asynccontextmanager
async def _listening(host: str, port: int) -> AsyncIterator[socket.socket]:
    with await in_thread(listen, host, port) as sock:
        yield sock
