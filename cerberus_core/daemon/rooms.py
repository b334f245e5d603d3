"""Every room, made of the settings, and how each follows them."""

import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import anyio
from anyio.to_thread import run_sync as in_thread

import cerberus_core
from cerberus_core.access import Keys, OneTimeCodes, Prices
from cerberus_core.api import Services
from cerberus_core.config import Config, Follow
from cerberus_core.engines import Footprints, Manager, Pools, RoomRules, policies_of
from cerberus_core.events import RELOAD, Bus
from cerberus_core.gateway import Gateway, Options
from cerberus_core.gpu import Monitor
from cerberus_core.loading import load_plugins
from cerberus_core.metrics import Tallies
from cerberus_core.platform import Clock, Folders, in_daemon_thread
from cerberus_core.store import Database
from cerberus_core.usage import Prompts, Store
from cerberus_core.values import Notice

from .live_plugins import LivePlugins
from .settings import Start


@asynccontextmanager
async def running(
    folders: Folders, start: Start, url: str, clock: Clock
) -> AsyncIterator[Services]:
    """Every room, made and running; taken down in the opposite order."""
    settings = start.settings
    config = settings.config
    keep, rotate_bytes = config.usage.keep, config.usage.rotate_mib << 20
    store = await in_thread(lambda: Store(folders.usage, keep=keep, rotate_bytes=rotate_bytes))
    prompts = Prompts(
        folders.prompts,
        days=config.usage.prompts_days,
        most_bytes=config.usage.prompts_mib << 20,
    )
    database = await in_thread(lambda: Database(folders.state_file))
    bus = Bus()
    try:
        # Foreign code, which may hang: a stop does not wait for it.
        plugins = await in_daemon_thread(
            lambda: load_plugins(config, folders, core_version=cerberus_core.__version__)
        )
        active_s, idle_s = intervals_of(config)
        monitor = Monitor(
            plugins.gpu_vendors,
            plugins.energy_meters,
            clock=clock,
            active_interval_s=active_s,
            idle_interval_s=idle_s,
            changed=lambda snapshot: bus.publish("gpus", snapshot),
        )
        manager = Manager(
            plugins.backends,
            policies=policies_of(config, folders.config),
            clock=clock,
            changed=lambda model: bus.publish("model", model),
            list_ttl_s=config.engines.list_ttl_s,
            pools=Pools(monitor, config.engines.memory_mib),
            footprints=await in_thread(lambda: Footprints(database)),
            rules=rules_of(config),
        )
        tallies = Tallies(manager.listed)
        store.follow(tallies.add)
        keys = await in_thread(lambda: Keys(database, clock, Prices(config.prices)))
        gateway = Gateway(
            manager,
            store,
            publish=bus.publish,
            clock=clock,
            energy=monitor.ledger,
            keys=keys,
            prompts=prompts,
            options=options_of(config),
        )

        def apply(config: Config) -> None:
            active_s, idle_s = intervals_of(config)
            monitor.retune(active_interval_s=active_s, idle_interval_s=idle_s)
            manager.retune(
                policies_of(config, folders.config),
                rules_of(config),
                memory_mib=config.engines.memory_mib,
                list_ttl_s=config.engines.list_ttl_s,
            )
            gateway.retune(options_of(config))
            keys.prices = Prices(config.prices)

        def notices() -> list[Notice]:
            mend = f"Mend it in {folders.config_file} and start the daemon anew."
            return [
                *settings.notices(str(folders.config_file)),
                *[Notice(text=text, hint=mend) for text in plugins.warnings],
                *[Notice(text=text) for text in database.warnings],
                *([Notice(text=prompts.warning)] if prompts.warning else []),
                *outdated(manager.outdated()),
            ]

        live = LivePlugins(plugins, manager, folders, settings)
        settings.follow_plugins(live.names, live.prepare)
        settings.follow(apply)
        settings.told = lambda: bus.publish(RELOAD, {})
        async with manager.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(monitor.run)
            tasks.start_soon(gateway.requests.tick)
            tasks.start_soon(manager.preload)
            tasks.start_soon(keys.run)
            tasks.start_soon(Follow(settings, folders.config_file, start.seen, clock).run)
            try:
                yield Services(
                    manager=manager,
                    gateway=gateway,
                    monitor=monitor,
                    store=store,
                    prompts=prompts,
                    tallies=tallies,
                    bus=bus,
                    keys=keys,
                    codes=OneTimeCodes(clock),
                    clock=clock,
                    token=start.token,
                    plugins=plugins.reports,
                    settings=settings,
                    config_file=str(folders.config_file),
                    notices=notices,
                    url=lambda: settings.config.server.public_url or url,
                    version=cerberus_core.__version__,
                    started_at=clock.now(),
                    pid=os.getpid(),
                )
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await gateway.aclose()
                    await monitor.aclose()
                    await keys.flush()
    finally:
        with anyio.CancelScope(shield=True):
            await in_thread(store.close)
            await in_thread(prompts.close)
            await in_thread(database.close)


def outdated(models: Collection[str]) -> list[Notice]:
    """That `models` were loaded with other settings than are in force since."""
    if not models:
        return []
    named = ", ".join(sorted(models)[:5]) + (
        f" and {len(models) - 5} more" if len(models) > 5 else ""
    )
    return [
        Notice(
            text=f"Loaded with other settings than they have now: {named}",
            hint="`cerberus config diff` shows them; they count from the next load on.",
        )
    ]


def intervals_of(config: Config) -> tuple[float, float]:
    """Seconds between readings of GPUs and meters: while somebody is answered, and else."""
    return config.gpu.active_interval_ms / 1000, config.gpu.idle_interval_ms / 1000


def rules_of(config: Config) -> RoomRules:
    return RoomRules(max_loaded=config.engines.max_loaded, max_wait_s=config.engines.max_wait_s)


def options_of(config: Config) -> Options:
    gateway = config.gateway
    return Options(
        hold_s=gateway.hold_s,
        keepalive_s=gateway.keepalive_s,
        silence_s=gateway.silence_s,
        body_limit=gateway.body_limit_mib << 20,
    )
