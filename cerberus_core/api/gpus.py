"""GPUs and energy meters."""

import anyio
from litestar import Controller, get

from cerberus_core.values import GPUSnapshot

from .services import Given, Services

WAIT_S = 3.0
"""A driver that takes longer costs the answer its news, and nothing else."""


class GPUsController(Controller):
    path = "/api"
    tags = ["box"]

    @get("/gpus", summary="GPUs and energy")
    async def gpus(self, services: Given) -> GPUSnapshot:
        """Every card, the energy since the start, and what meters it; at most a few seconds old."""
        return await latest(services, WAIT_S)


async def latest(services: Services, wait_s: float) -> GPUSnapshot:
    """Read anew where the last reading is old and that takes no longer than `wait_s`."""
    with anyio.move_on_after(wait_s):
        return await services.monitor.fresh()
    return services.monitor.snapshot()
