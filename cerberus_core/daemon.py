"""The composition root of `cerberus serve`: the only place that knows every room.

Boot goes data first: lock, settings, usage log, then plugins, then the socket.
What is missing degrades; only a broken config or a second daemon stops it.
"""

import contextlib
import errno
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import anyio
import attrs
import uvicorn
from anyio.to_thread import run_sync as in_thread

import cerberus_core
from cerberus_core import config as settings
from cerberus_core.access import Hosts, OneTimeCodes
from cerberus_core.api import Services, build
from cerberus_core.config import Config
from cerberus_core.engines import Manager, ModelPolicy, Policies
from cerberus_core.errors import AlreadyRunning, CerberusError
from cerberus_core.events import Bus
from cerberus_core.gateway import Gateway, Options
from cerberus_core.loading import load_plugins
from cerberus_core.platform import Clock, FileLock, Folders, SystemClock
from cerberus_core.usage import Store
from cerberus_core.values import LoadPlan

STOP_GRACE_S = 5
"""Seconds that running answers get when the daemon is asked to stop."""


async def serve(
    folders: Folders,
    *,
    host: str | None = None,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
    on_listening: Callable[[str, list[str]], None] = lambda url, warnings: None,
    clock: Clock | None = None,
    stop: anyio.Event | None = None,
) -> None:
    """Run until SIGINT, SIGTERM or `stop`. `host` and `port` win over the settings.

    `on_listening(url, warnings)` is called once requests are taken. Raises
    `ConfigError`, `AlreadyRunning`, `AddressRefused`.
    """
    clock = clock or SystemClock()
    loaded = await in_thread(lambda: settings.load(folders, env))
    config = loaded.config
    if host is not None or port is not None:
        address = attrs.evolve(
            config.server,
            host=config.server.host if host is None else host,
            port=config.server.port if port is None else port,
        )
        config = attrs.evolve(config, server=address)
    with _sole_owner(folders), _listening_socket(config.server.host, config.server.port) as sock:
        token = await in_thread(lambda: config.server.token or settings.ensure_token(folders))
        url = _url_of(sock)
        async with _running(folders, config, loaded.warnings, token, url, clock) as services:
            server = _Server(
                uvicorn.Config(
                    build(services),
                    lifespan="off",
                    access_log=False,
                    log_config=None,
                    log_level="warning",
                    timeout_graceful_shutdown=STOP_GRACE_S,
                    server_header=False,
                    # X-Forwarded-For of whoever sits on loopback is no truth for us.
                    proxy_headers=False,
                    ws="none",
                ),
                before_shutdown=services.bus.close,
                started_callback=lambda: _announce(folders, services, url, on_listening),
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop_on_signal, server)
                if stop is not None:
                    tasks.start_soon(_stop_when, stop, server)
                try:
                    await server.serve(sockets=[sock])
                finally:
                    await server.close(sock)
                tasks.cancel_scope.cancel()


async def _stop_on_signal(server: uvicorn.Server) -> None:
    """The first signal asks for a stop; a second one cuts running answers off."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            server.force_exit = server.should_exit
            server.should_exit = True


async def _stop_when(stop: anyio.Event, server: uvicorn.Server) -> None:
    await stop.wait()
    server.should_exit = True


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
    store = Store(folders.usage, keep=config.usage.keep, rotate_bytes=config.usage.rotate_mib << 20)
    bus = Bus()
    try:
        plugins = await in_thread(
            lambda: load_plugins(config, folders, core_version=cerberus_core.__version__)
        )
        manager = Manager(
            plugins.backends,
            policies=_policies(config),
            clock=clock,
            changed=lambda model: bus.publish("model", model),
            list_ttl_s=config.engines.list_ttl_s,
        )
        gateway = Gateway(
            manager,
            store,
            publish=bus.publish,
            clock=clock,
            options=Options(
                hold_s=config.gateway.hold_s,
                keepalive_s=config.gateway.keepalive_s,
                silence_s=config.gateway.silence_s,
                body_limit=config.gateway.body_limit_mib << 20,
            ),
        )
        every_warning = [*warnings, *plugins.warnings]
        async with manager.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.requests.tick)
            tasks.start_soon(manager.models)
            try:
                yield Services(
                    manager=manager,
                    gateway=gateway,
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
                    warnings=lambda: every_warning,
                    url=lambda: config.server.public_url or url,
                    version=cerberus_core.__version__,
                    started_at=clock.now(),
                    pid=os.getpid(),
                )
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await gateway.aclose()
    finally:
        with anyio.CancelScope(shield=True):
            await in_thread(store.close)


def _policies(config: Config) -> Policies:
    return Policies(
        default_ttl_s=config.engines.ttl_s,
        models={
            model_id: ModelPolicy(
                ttl_s=config.engines.ttl_s if model.ttl_s is None else model.ttl_s,
                plan=LoadPlan(context=model.context, parallel=model.parallel),
            )
            for model_id, model in config.models.items()
        },
        aliases={
            alias: model_id for model_id, model in config.models.items() for alias in model.aliases
        },
    )


class AddressRefused(CerberusError):
    """The address can't be listened on."""

    code = "address_refused"


class AddressInUse(AddressRefused):
    """Somebody else listens there."""

    code = "address_in_use"


class _Server(uvicorn.Server):
    """uvicorn, with a word before it waits for open streams and one after it listens."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        before_shutdown: Callable[[], None],
        started_callback: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._before_shutdown = before_shutdown
        self._started_callback = started_callback
        self._closed = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again at its end, which would kill the
        # process before the engines are stopped and the last records written.
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._started_callback()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._before_shutdown()
        self._closed = True
        await super().shutdown(sockets=sockets)

    async def close(self, sock: socket.socket) -> None:
        """Shut down where `serve` was cancelled before it could."""
        if self.started and not self._closed:
            self.force_exit = True
            with anyio.CancelScope(shield=True):
                await self.shutdown(sockets=[sock])


def _announce(
    folders: Folders,
    services: Services,
    url: str,
    on_listening: Callable[[str, list[str]], None],
) -> None:
    _write_daemon_file(folders.daemon_file, url, services.started_at)
    failed = [
        f"plugin {report.name}: {report.problem}"
        for report in services.plugins
        if report.state == "failed"
    ]
    on_listening(services.url(), [*services.warnings(), *failed])


@contextlib.contextmanager
def _sole_owner(folders: Folders) -> Iterator[None]:
    folders.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(folders.daemon_lock)
    # A command that looks whether a daemon runs holds it for a moment: look again.
    tries = 10
    while not lock.acquire(blocking=False):
        tries -= 1
        if tries:
            time.sleep(0.05)
            continue
        where = _running_at(folders.daemon_file)
        raise AlreadyRunning(
            f"Another daemon owns {folders.data}" + (f" and listens at {where}" if where else ""),
            hint="`cerberus status` shows it; stop it first, or set CERBERUS_DATA to another "
            "folder.",
        )
    try:
        yield
    finally:
        folders.daemon_file.unlink(missing_ok=True)
        lock.release()


@contextlib.contextmanager
def _listening_socket(host: str, port: int) -> Iterator[socket.socket]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise AddressRefused(
            f"{host!r} is no address of this machine: {error.strerror or error}",
            hint="Use 127.0.0.1, ::1, or an address that `ip addr` shows.",
        ) from None
    family, kind, proto, _, address = found[0]
    with socket.socket(family, kind, proto) as sock:
        if os.name != "nt":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(address)
            sock.listen(2048)
        except OSError as error:
            raise _refused(host, port, error) from None
        sock.setblocking(False)
        yield sock


def _refused(host: str, port: int, error: OSError) -> AddressRefused:

    if error.errno == errno.EADDRINUSE:
        return AddressInUse(
            f"Port {port} is in use on {host}",
            hint=f"Choose another: `cerberus serve --port {port + 1}`, or 0 for any free one.",
        )
    if error.errno == errno.EACCES:
        return AddressRefused(
            f"Port {port} needs rights that this user has not",
            hint="Use a port above 1023, such as 7733.",
        )
    return AddressRefused(
        f"{host} can't be listened on: {error.strerror or error}",
        hint="Use 127.0.0.1, ::1, or an address that `ip addr` shows.",
    )


def _url_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _write_daemon_file(path: Path, url: str, started_at: datetime) -> None:
    text = json.dumps(
        {
            "pid": os.getpid(),
            "url": url,
            "version": cerberus_core.__version__,
            "started_at": started_at.isoformat(),
        }
    )
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)


def _running_at(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
