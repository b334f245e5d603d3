"""The composition root of `cerberus serve`: the only place that knows every room.

Boot goes data first: lock, settings, usage log, then plugins, then the socket.
What is missing degrades; only a broken config or a second daemon stops it.
"""

import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
import attrs
import structlog
from anyio.to_thread import run_sync as in_thread

import cerberus_core
from cerberus_core import config as settings
from cerberus_core.access import Hosts, OneTimeCodes
from cerberus_core.api import Price, Services, build
from cerberus_core.api.server import Server
from cerberus_core.config import Config
from cerberus_core.engines import Footprints, Manager, Pools, RoomRules, policies_of
from cerberus_core.errors import AlreadyRunning, CerberusError
from cerberus_core.events import Bus
from cerberus_core.gateway import Gateway, Options
from cerberus_core.gpu import Monitor
from cerberus_core.loading import load_plugins
from cerberus_core.platform import Clock, FileLock, Folders, SystemClock, in_daemon_thread
from cerberus_core.platform.limits import raise_open_files
from cerberus_core.platform.listening import listen, url_of
from cerberus_core.store import Database
from cerberus_core.usage import Store

_log = structlog.get_logger("daemon")

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
    stopping = _Stopping(on_stopping)
    failure: CerberusError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signal, stopping)
        if stop is not None:
            tasks.start_soon(_stop_when, stop, stopping)
        try:
            with stopping.start:
                clock = clock or SystemClock()
                await _serve(folders, host, port, env, on_listening, clock, stopping)
        except CerberusError as error:
            failure = error  # raised below, where no group is put around it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _serve(
    folders: Folders,
    host: str | None,
    port: int | None,
    env: Mapping[str, str] | None,
    on_listening: Callable[[Listening], None],
    clock: Clock,
    stopping: "_Stopping",
) -> None:
    loaded = await in_thread(lambda: settings.load(folders, env))
    config = loaded.config
    if host is not None or port is not None:
        address = attrs.evolve(
            config.server,
            host=config.server.host if host is None else host,
            port=config.server.port if port is None else port,
        )
        config = attrs.evolve(config, server=address)
    address = config.server
    async with _sole_owner(folders), _listening(address.host, address.port) as sock:
        token = await in_thread(lambda: config.server.token or settings.ensure_token(folders))
        url = url_of(sock)
        async with _running(folders, config, loaded.warnings, token, url, clock) as services:
            server = Server(
                await in_thread(build, services),
                grace_s=STOP_GRACE_S,
                before_shutdown=services.bus.close,
                after_startup=lambda: in_thread(_write_daemon_file, folders, url),
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_announce, server, services, on_listening)
                stopping.serving(server, services.gateway.requests.__len__)
                try:
                    await server.serve(sockets=[sock])
                finally:
                    await server.close(sock)
                tasks.cancel_scope.cancel()


class _Stopping:
    """Who is to be stopped: the start, which is cancelled, and then the server, which is asked."""

    def __init__(self, on_stopping: Callable[[int], None]) -> None:
        self.start = anyio.CancelScope()
        self._on_stopping = on_stopping
        self._server: Server | None = None
        self._running: Callable[[], int] = int

    def serving(self, server: Server, running: Callable[[], int]) -> None:
        self._server, self._running = server, running

    def signalled(self) -> None:
        """The first signal asks for a stop; a second one cuts running answers off."""
        again = self._server is not None and self._server.should_exit
        if not again:
            self._on_stopping(self._running())
        self.ask()
        if self._server is not None:
            self._server.force_exit = again

    def ask(self) -> None:
        if self._server is None:
            self.start.cancel()
        else:
            self._server.should_exit = True


async def _stop_on_signal(stopping: _Stopping) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            stopping.signalled()


async def _stop_when(stop: anyio.Event, stopping: _Stopping) -> None:
    await stop.wait()
    stopping.ask()


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
async def _running(
    folders: Folders,
    config: Config,
    warnings: list[str],
    token: str,
    url: str,
    clock: Clock,
) -> AsyncIterator[Services]:
    """Every room, made and running; taken down in the opposite order."""
    keep, rotate_bytes = config.usage.keep, config.usage.rotate_mib << 20
    store = await in_thread(lambda: Store(folders.usage, keep=keep, rotate_bytes=rotate_bytes))
    database = await in_thread(lambda: Database(folders.state_file))
    bus = Bus()
    try:
        # Foreign code, which may hang: a stop does not wait for it.
        plugins = await in_daemon_thread(
            lambda: load_plugins(config, folders, core_version=cerberus_core.__version__)
        )
        monitor = Monitor(
            plugins.gpu_vendors,
            plugins.energy_meters,
            clock=clock,
            active_interval_s=config.gpu.active_interval_ms / 1000,
            idle_interval_s=config.gpu.idle_interval_ms / 1000,
            changed=lambda snapshot: bus.publish("gpus", snapshot),
        )
        manager = Manager(
            plugins.backends,
            policies=policies_of(config),
            clock=clock,
            changed=lambda model: bus.publish("model", model),
            list_ttl_s=config.engines.list_ttl_s,
            pools=Pools(monitor, config.engines.memory_mib),
            footprints=await in_thread(lambda: Footprints(database)),
            rules=RoomRules(
                max_loaded=config.engines.max_loaded, max_wait_s=config.engines.max_wait_s
            ),
        )
        gateway = Gateway(
            manager,
            store,
            publish=bus.publish,
            clock=clock,
            energy=monitor.ledger,
            options=Options(
                hold_s=config.gateway.hold_s,
                keepalive_s=config.gateway.keepalive_s,
                silence_s=config.gateway.silence_s,
                body_limit=config.gateway.body_limit_mib << 20,
            ),
        )
        every_warning = [*warnings, *plugins.warnings]
        async with manager.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(monitor.run)
            tasks.start_soon(gateway.requests.tick)
            tasks.start_soon(manager.preload)
            try:
                yield Services(
                    manager=manager,
                    gateway=gateway,
                    monitor=monitor,
                    price=Price(
                        per_kwh=config.energy.price_per_kwh, currency=config.energy.currency
                    ),
                    store=store,
                    bus=bus,
                    codes=OneTimeCodes(clock),
                    clock=clock,
                    token=token,
                    hosts=Hosts(
                        bind=config.server.host,
                        public_url=config.server.public_url,
                        allowed=config.server.allowed_hosts,
                    ),
                    plugins=plugins.reports,
                    public_config=settings.public(config),
                    config_file=str(folders.config_file),
                    warnings=lambda: [
                        *every_warning,
                        *([database.warning] if database.warning else []),
                    ],
                    url=lambda: config.server.public_url or url,
                    version=cerberus_core.__version__,
                    started_at=clock.now(),
                    pid=os.getpid(),
                )
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await gateway.aclose()
                    await monitor.aclose()
    finally:
        with anyio.CancelScope(shield=True):
            await in_thread(store.close)
            await in_thread(database.close)


@asynccontextmanager
async def _sole_owner(folders: Folders) -> AsyncIterator[None]:
    lock = FileLock(folders.daemon_lock)

    def take() -> bool:
        folders.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not lock.acquire(blocking=False):
            return False
        # One that was killed left its address: with the lock held, commands would trust it.
        folders.daemon_file.unlink(missing_ok=True)
        return True

    try:
        # A command that looks whether a daemon runs holds it for a moment: look again.
        tries = 10
        while not await in_thread(take):
            tries -= 1
            if not tries:
                raise await in_thread(_already_running, folders)
            await anyio.sleep(0.05)
    except OSError as error:
        raise CerberusError(
            f"{folders.data} can't be written: {error.strerror or error}",
            hint="Mend it, or set CERBERUS_DATA to another folder.",
            code="data_unwritable",
        ) from None
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await in_thread(lambda: folders.daemon_file.unlink(missing_ok=True))
        lock.release()


def _already_running(folders: Folders) -> AlreadyRunning:
    try:
        where = f" and listens at {json.loads(folders.daemon_file.read_text())['url']}"
    except (OSError, ValueError, KeyError, TypeError):
        where = ""
    return AlreadyRunning(
        f"Another daemon owns {folders.data}{where}",
        hint="`cerberus status` shows it; stop it first, or set CERBERUS_DATA to another folder.",
    )


@asynccontextmanager
async def _listening(host: str, port: int) -> AsyncIterator[socket.socket]:
    with await in_thread(listen, host, port) as sock:
        yield sock


def _write_daemon_file(folders: Folders, url: str) -> None:
    """For the commands, which look here for the daemon's address and else in the settings."""
    said = {"pid": os.getpid(), "url": url, "version": cerberus_core.__version__}
    temporary = folders.daemon_file.with_suffix(".new")
    try:
        temporary.write_text(json.dumps(said))
        temporary.replace(folders.daemon_file)
    except OSError as error:
        _log.warning("daemon_file_unwritable", file=str(temporary), error=str(error))
