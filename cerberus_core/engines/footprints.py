"""What models take: estimated before the first load, learned from the loads there were."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import attrs
import structlog

from cerberus_core.store import Database, Statement
from cerberus_core.values import Estimate, LoadPlan

from .residency import Footprint, Pool

HOST = "host"
Source = Literal["learned", "estimated", "unknown"]
_NEWER = 0.5
"""Weight of the newest load time against those before."""
_MOST_MIB = 1 << 40
_MOST_S = 366 * 86400.0

_log = structlog.get_logger("engines")


@attrs.frozen
class Expected:
    """A footprint, and where it comes from."""

    footprint: Footprint
    source: Source


class Footprints:
    """Learned footprints and load times by model and plan, kept in the state file."""

    def __init__(self, database: Database | None = None) -> None:
        """Blocking where there is a database."""
        self._database = database
        self._taken: dict[tuple[str, str], dict[str, int]] = {}
        self._seconds: dict[tuple[str, str], float] = {}
        if database is not None:
            self._recall(database)

    def _recall(self, database: Database) -> None:
        """What the file holds; other programs may have written into it."""
        bad: set[object] = set()
        for model, plan, pool, mib in database.read(
            "SELECT model, plan, pool, mib FROM footprints"
        ):
            if all(isinstance(text, str) for text in (model, plan, pool)) and _is_mib(mib):
                self._taken.setdefault((model, plan), {})[pool] = mib
            else:
                bad.add((model, plan))
        for key in bad:
            self._taken.pop(key, None)  # type: ignore[call-overload]  # of a part nothing follows
        for model, plan, seconds in database.read("SELECT model, plan, seconds FROM load_times"):
            if isinstance(model, str) and isinstance(plan, str) and _is_seconds(seconds):
                self._seconds[model, plan] = seconds
            else:
                bad.add((model, plan, "load"))
        if bad:
            _log.warning("facts_dropped", file=str(database.file), count=len(bad))

    def expected(
        self, model: str, plan: LoadPlan, estimate: Estimate | None, pools: Sequence[Pool]
    ) -> Expected:
        """The learned one, else the estimate laid out over the pools."""
        taken = self._taken.get((model, plan_key(plan)))
        # Of a card that has gone since nothing was learned for the memories that are left.
        if taken and taken.keys() <= {pool.name for pool in pools}:
            return Expected(taken, "learned")
        if estimate is None:
            return Expected({}, "unknown")
        return Expected(lay_out(estimate, pools), "estimated")

    def load_s(self, model: str, plan: LoadPlan) -> float | None:
        """Seconds that a load of it takes; None where it was never loaded."""
        return self._seconds.get((model, plan_key(plan)))

    def learn_taken(
        self, model: str, plan: LoadPlan, taken: Footprint, now: datetime, *, used: bool
    ) -> Footprint:
        """Keep what a model really took, and return what to count on from now on.

        `used`: it has answered somebody. Before, not all of its memory is touched, so that
        less says nothing. What can't be is not believed.
        """
        key = (model, plan_key(plan))
        if not all(_is_mib(mib) for mib in taken.values()):
            _log.warning("footprint_unbelievable", model=model, taken=repr(taken)[:200])
            return dict(self._taken.get(key, {}))
        taken = believed(self._taken.get(key), taken, used=used)
        self._taken[key] = dict(taken)
        rows = [(*key, pool, mib, now.isoformat()) for pool, mib in taken.items()]
        self._keep(
            ("footprints", *key),
            ("DELETE FROM footprints WHERE model = ? AND plan = ?", [key]),
            ("INSERT OR REPLACE INTO footprints VALUES (?, ?, ?, ?, ?)", rows),
        )
        return taken

    def learn_load(self, model: str, plan: LoadPlan, seconds: float, now: datetime) -> None:
        """Keep how long a load took."""
        if not _is_seconds(seconds):
            return
        key = (model, plan_key(plan))
        before = self._seconds.get(key, seconds)
        self._seconds[key] = before + (seconds - before) * _NEWER
        rows = [(*key, self._seconds[key], now.isoformat())]
        self._keep(
            ("load_times", *key), ("INSERT OR REPLACE INTO load_times VALUES (?, ?, ?, ?)", rows)
        )

    def _keep(self, key: tuple[str, ...], *statements: Statement) -> None:
        if self._database is not None:
            self._database.later(key, statements)


def _is_mib(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_MIB


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= _MOST_S  # type: ignore[arg-type, operator]


def believed(before: Footprint | None, seen: Footprint, *, used: bool) -> Footprint:
    """More is believed at once, less by half, and not before the model was in use. Pure."""
    if before is None or before.keys() != seen.keys():
        return seen
    part = 2 if used else 1
    return {pool: max(mib, mib + (before[pool] - mib) // part) for pool, mib in seen.items()}


def plan_key(plan: LoadPlan) -> str:
    """What of a plan decides on memory, as text."""
    return ",".join(f"{name}={value}" for name, value in plan.asked().items())


def lay_out(estimate: Estimate, pools: Sequence[Pool]) -> Footprint:
    """An estimate over the pools: the GPUs as far as they go, the rest in the host's memory.

    Over several GPUs it is spread as engines do, in proportion to their size.
    """
    gpus = [pool for pool in pools if pool.name != HOST] if estimate.on_gpu else []
    room = sum(gpu.budget for gpu in gpus)
    on_gpus = min(estimate.total_mib, room)
    parts: dict[str, int] = {}
    for gpu in gpus:
        parts[gpu.name] = -(-on_gpus * gpu.budget // room) if room else 0
    rest = estimate.total_mib - on_gpus
    if rest or not gpus:
        parts[HOST] = rest
    return {name: mib for name, mib in parts.items() if mib}


def merged(host_mib: int | None, gpus: Mapping[str, int]) -> Footprint:
    """What was measured, as a footprint."""
    return {**({HOST: host_mib} if host_mib else {}), **{k: v for k, v in gpus.items() if v}}
