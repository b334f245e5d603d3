"""The box as a whole: health, status, notices, plugins."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

import attrs
from litestar import Controller, get

from cerberus_core.values import Notice, PluginReport

from .gpus import latest
from .services import Given

GPU_WAIT_S = 0.2
"""How long the status waits for a reading of the GPUs."""


@attrs.frozen(kw_only=True)
class Health:
    status: str


@attrs.frozen(kw_only=True)
class Status:
    """Flat: a status bar needs nothing else."""

    version: str
    pid: int
    url: str
    started_at: datetime
    uptime_s: int
    models: int
    models_loaded: int
    requests_in_flight: int
    requests_total: int
    """Since the start."""
    plugins_failed: int
    gpus: int
    gpu_power_w: float | None
    """Of all cards that tell; so are the next three."""
    gpu_mem_used_mib: int | None
    gpu_mem_total_mib: int | None
    gpu_energy_j: float | None
    """Since the start."""
    cpu_energy_j: float | None
    warnings: list[str]


@attrs.frozen(kw_only=True)
class Notices:
    """Empty when all is well."""

    notices: list[Notice]


@attrs.frozen(kw_only=True)
class Plugins:
    plugins: list[PluginReport]


@get("/healthz", sync_to_thread=False)
def healthz() -> Health:
    """Alive. Needs no token and tells nothing else."""
    return Health(status="ok")


class BoxController(Controller):
    path = "/api"
    tags = ["box"]

    @get("/status", summary="Status")
    async def status(self, services: Given) -> Status:
        """One flat document."""
        models = await services.manager.models()
        snapshot = await latest(services, GPU_WAIT_S)
        gpus = snapshot.gpus
        return Status(
            version=services.version,
            pid=services.pid,
            url=services.url(),
            started_at=services.started_at,
            uptime_s=int((services.clock.now() - services.started_at).total_seconds()),
            models=len(models),
            models_loaded=sum(model.managed and model.loaded for model in models),
            requests_in_flight=len(services.gateway.requests),
            requests_total=services.gateway.requests.total,
            plugins_failed=sum(report.state == "failed" for report in services.plugins),
            gpus=len(gpus),
            gpu_power_w=_sum(gpu.power_w for gpu in gpus),
            gpu_mem_used_mib=_sum(gpu.mem_used_mib for gpu in gpus),
            gpu_mem_total_mib=_sum(gpu.mem_total_mib for gpu in gpus),
            gpu_energy_j=snapshot.gpu_energy_j,
            cpu_energy_j=snapshot.cpu_energy_j,
            warnings=[
                *services.warnings(),
                *([services.store.warning] if services.store.warning else []),
                *services.manager.warnings(),
            ],
        )

    @get("/notices", summary="What needs a person", sync_to_thread=False)
    def notices(self, services: Given) -> Notices:
        """Each with what to do about it: settings, the disk, backends, plugins."""
        warning = services.store.warning
        return Notices(
            notices=[
                *services.notices(),
                *([Notice(text=warning)] if warning else []),
                *services.manager.notices(),
                *[
                    Notice(
                        text=f"The plugin {report.name} could not start: {report.problem}",
                        hint=report.hint,
                    )
                    for report in services.plugins
                    if report.state == "failed"
                ],
            ]
        )

    @get("/plugins", summary="Plugins", sync_to_thread=False)
    def plugins(self, services: Given) -> Plugins:
        """What was loaded, what failed and why."""
        return Plugins(plugins=services.plugins)


N = TypeVar("N", int, float)


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
