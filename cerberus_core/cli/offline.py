"""Plugins and models in this process, for commands that work without the daemon."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs

import cerberus_core
from cerberus_core.config import Loaded, load
from cerberus_core.engines import Manager, Pools, RoomRules, can_chat, policies_of
from cerberus_core.errors import BadRequest, NotFound
from cerberus_core.gpu import Monitor
from cerberus_core.interfaces import Backend
from cerberus_core.loading import Plugins, load_plugins
from cerberus_core.platform import Folders, SystemClock
from cerberus_core.values import GPUSnapshot, ModelInfo

from .output import warn
from .typed import install_as_typed


@attrs.frozen
class Here:
    """The settings and plugins as this process sees them."""

    loaded: Loaded
    plugins: Plugins
    folders: Folders

    @property
    def warnings(self) -> list[str]:
        return [*self.loaded.warnings, *self.plugins.warnings]

    @asynccontextmanager
    async def manager(self) -> AsyncIterator[Manager]:
        """The manager that the daemon would have, its models listed; nothing is learned."""
        config = self.loaded.config
        async with self._monitor(meters=False) as monitor:
            manager = Manager(
                self.plugins.backends,
                policies=policies_of(config, self.folders.config),
                clock=SystemClock(),
                pools=Pools(monitor, config.engines.memory_mib),
                rules=RoomRules(max_loaded=config.engines.max_loaded),
            )
            async with manager.running():
                await manager.models()
                yield manager

    async def gpus(self) -> GPUSnapshot:
        """The GPUs and energy meters, read once."""
        async with self._monitor() as monitor:
            return await monitor.fresh()

    @asynccontextmanager
    async def _monitor(self, *, meters: bool = True) -> AsyncIterator[Monitor]:
        energy = self.plugins.energy_meters if meters else {}
        monitor = Monitor(self.plugins.gpu_vendors, energy, clock=SystemClock())
        try:
            yield monitor
        finally:
            await monitor.aclose()


def usable(models: Sequence[ModelInfo]) -> str | None:
    """One to chat with: with weights here, or served elsewhere."""
    able = [model for model in models if can_chat(model)]
    return next((m.id for m in able if m.size_mib is not None or not m.managed), None)


def look_here(folders: Folders) -> Here:
    """Load the settings and the plugins. Nothing is logged: commands tell what is wrong."""
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    loaded = load(folders, os.environ)
    plugins = load_plugins(loaded.config, folders, core_version=cerberus_core.__version__)
    return Here(loaded, plugins, folders)


def warn_all(lines: Sequence[str]) -> None:
    """Each on stderr."""
    for line in lines:
        warn(f"! {line}")


def backend_for_pull(backends: Sequence[Backend], ref: str) -> tuple[Backend, str]:
    """(backend, its part of `ref`): `backend:rest` names one, else the first that can pull.

    What stands before a colon and is no backend must be a repository (`org/repo:quant`).
    """
    prefix, _, rest = ref.partition(":")
    for backend in backends:
        if rest and backend.name == prefix:
            return backend, rest
    able = [backend for backend in backends if type(backend).pull is not Backend.pull]
    if not able:
        raise NotFound(
            "No backend here can pull models",
            hint=f"cerberus-llamacpp can: `{install_as_typed('cerberus-llamacpp')}` installs it "
            "where `cerberus plugins` doesn't show it.",
        )
    if rest and "/" not in prefix and not rest.startswith("//"):
        names = ", ".join(backend.name for backend in able)
        raise BadRequest(
            f"There is no backend {prefix!r} to pull from",
            hint=f"Write org/repo:quant, or one of these before the colon: {names}.",
        )
    return able[0], ref
