"""The memories of this machine, and what engines have of them."""

from collections.abc import Mapping, Sequence

from anyio.to_thread import run_sync as in_thread

from cerberus_core.gpu import Monitor
from cerberus_core.platform.memory import host_memory, taken_by, with_children
from cerberus_core.values import GPU

from .footprints import HOST, merged
from .residency import Footprint, Pool

HOST_SHARE = 0.9
"""Of the machine's memory, for all models together, where no setting says otherwise."""
GPU_MARGIN_MIB = 512
"""Left free on each card, for what draws the screen and for buffers nobody foresaw."""


class Pools:
    """`look` tells what is free now, `taken` what some processes hold."""

    def __init__(self, monitor: Monitor | None = None, budget_mib: int | None = None) -> None:
        """`budget_mib` of the host's memory; None: nine tenths of it."""
        self._monitor = monitor
        self.budget_mib = budget_mib

    async def look(self, *, fresh: bool = False) -> Sequence[Pool]:
        """The host's memory first, then each card that tells its own.

        `fresh`: the cards are read now. Else their last reading may be some seconds old.
        """
        host = await in_thread(host_pool, self.budget_mib)
        gpus = await self._gpus(fresh=fresh)
        return [host, *[pool for gpu in gpus if (pool := gpu_pool(gpu))]]

    async def taken(self, pids: Sequence[int]) -> Footprint:
        """Of all pools; empty where none of the processes is there."""
        if not pids:
            return {}
        host, family = await in_thread(lambda: (taken_by(pids), with_children(pids)))
        return merged(host, on_gpus(await self._gpus(fresh=True), family))

    async def _gpus(self, *, fresh: bool = False) -> Sequence[GPU]:
        if self._monitor is None:
            return ()
        snapshot = await (self._monitor.refresh() if fresh else self._monitor.fresh())
        return snapshot.gpus


def host_pool(budget_mib: int | None) -> Pool:
    """This machine's memory now. Blocking, and quick."""
    total, available = host_memory()
    budget = int(total * HOST_SHARE) if budget_mib is None else budget_mib
    return Pool(name=HOST, total=total, free=available, budget=budget)


def gpu_pool(gpu: GPU) -> Pool | None:
    """A card's memory; None where it doesn't tell."""
    if gpu.mem_total_mib is None or gpu.mem_used_mib is None:
        return None
    return Pool(
        name=gpu.card,
        total=gpu.mem_total_mib,
        free=max(0, gpu.mem_total_mib - gpu.mem_used_mib),
        budget=max(0, gpu.mem_total_mib - GPU_MARGIN_MIB),
    )


def on_gpus(gpus: Sequence[GPU], pids: Sequence[int]) -> Mapping[str, int]:
    """What the processes hold of each card, where it tells."""
    return {
        gpu.card: sum(mib for pid in pids if (mib := (gpu.processes or {}).get(pid)))
        for gpu in gpus
    }


def spread(told: Mapping[str, int], pools: Sequence[Pool]) -> Footprint:
    """What a server tells of `host` and `gpu`, over the pools that there are.

    Which of several cards it meant nobody knows: in proportion to their size.
    Without any, all of it is the host's.
    """
    gpus = [pool for pool in pools if pool.name != HOST]
    whole = sum(gpu.budget for gpu in gpus)
    on_gpu, host = told.get("gpu", 0), told.get(HOST, 0)
    if not whole:
        return merged(host + on_gpu, {})
    return merged(host, {gpu.name: -(-on_gpu * gpu.budget // whole) for gpu in gpus})
