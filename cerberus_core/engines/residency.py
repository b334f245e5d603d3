"""Who may stay in memory, who leaves for whom, and what is missing. Pure.

Memory is counted in pools: the host's, and one for each GPU. A model takes of
each what its footprint says. What other programs hold is seen in what is free.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs

Footprint = Mapping[str, int]
"""MiB by the name of a pool."""


@attrs.frozen(kw_only=True)
class Pool:
    """One memory, as it is now. In MiB."""

    name: str
    total: int
    free: int
    budget: int
    """What all models together may take."""


@attrs.frozen(kw_only=True)
class Resident:
    """A model that is in memory or on its way there."""

    model: str
    footprint: Footprint
    loading: bool = False
    """Not all of its memory is seen as taken yet."""
    busy: bool = False
    """It answers somebody, or is about to."""
    wanted: bool = True
    """Of one that loads: somebody waits for it."""
    pinned: bool = False
    stays: bool = False
    """It was asked to leave a short time ago, and did not."""
    held_s: float = 0.0
    """Kept for so long, for a session's next turn: is waited for if nobody else will do."""
    idle_s: float = 0.0
    ready_s: float = 0.0
    """How long it has been there."""
    reload_s: float = 1.0
    """What its return would cost."""
    group: str | None = None
    exclusive: bool = False


@attrs.frozen(kw_only=True)
class Want:
    """A model that shall be loaded. An empty footprint: its size is unknown, only rules count."""

    model: str
    footprint: Footprint
    group: str | None = None
    exclusive: bool = False
    oversize: bool = False
    """It is loaded though it is larger than the memory there is; whoever can leaves for it."""
    there: bool = False
    """Others have loaded it at its server: what it takes is taken already, but not by us."""


@attrs.frozen
class Go:
    """There is room, or as much as there can be for one that may be larger."""

    missing: Footprint = attrs.field(factory=dict)
    """MiB that such a one lacks in each pool."""


@attrs.frozen
class MakeRoom:
    """These leave first; each with the reason."""

    leave: tuple[tuple[str, str], ...]
    missing: Footprint = attrs.field(factory=dict)
    """As of `Go`."""


@attrs.frozen
class Wait:
    """Only models in use, or held for a session, stand in the way: wait for any of these."""

    busy: tuple[str, ...]
    leave: tuple[str, ...] = ()
    """Where waiting has taken too long: these are enough, and no more than that."""
    again_s: float | None = None
    """Seconds until the first of them is held no longer."""
    missing: Footprint = attrs.field(factory=dict)
    """MiB that one which may be larger than memory lacks even then."""


@attrs.frozen(kw_only=True)
class Refuse:
    """It can't be, however long one waits."""

    why: str
    missing: Footprint
    """MiB that are missing in each pool; empty where rules forbid it."""


Decision = Go | MakeRoom | Wait | Refuse


def decide(
    want: Want,
    residents: Iterable[Resident],
    pools: Sequence[Pool],
    *,
    max_loaded: int | None = None,
) -> Decision:
    """What must happen for `want` to be loaded. Never touches a model in use."""
    others = [resident for resident in residents if resident.model != want.model]
    clashing = [other for other in others if clash(want, other)]
    fixed = [other for other in clashing if other.pinned or other.stays]
    if fixed:
        return Refuse(why=f"{_fixed(fixed)} and may not live beside it", missing={})
    asked = _Room(want, others, pools, max_loaded)
    movable = [other for other in others if not (other.pinned or other.stays)]
    missing: Footprint = {}
    if not asked.enough(movable):
        # How much of a load's memory is seen as taken already, nobody knows: look again after it.
        loading = [other for other in movable if other.loading]
        if loading:
            unwanted = tuple(other.model for other in loading if not other.wanted)
            return Wait(tuple(other.model for other in loading), unwanted)
        if not want.oversize or asked.too_many(movable):
            return _refusal(asked, movable)
        missing = asked.missing(movable)
        asked = attrs.evolve(asked, want=_reduced(want, missing))
    unused = [other for other in movable if not (other.busy or other.loading)]
    idle = [other for other in unused if other.held_s <= 0]
    forced = [other for other in clashing if other in idle]
    if len(forced) < len(clashing) or not asked.enough(idle):
        held = [other for other in unused if other.held_s > 0]
        return Wait(
            tuple(_in_the_way(asked, clashing, movable, idle)),
            _in_the_end(asked, clashing, movable, idle),
            min((other.held_s for other in held), default=None),
            missing,
        )
    leaving = _fewest(asked, forced, sorted(idle, key=_worth_keeping))
    if not leaving:
        return Go(missing)
    coming = tuple(other.model for other in movable if other.loading)
    if coming and not forced and attrs.evolve(asked, coming_seen=True).enough([]):
        return Wait(coming)  # nobody need leave if what is on its way is seen as taken already
    leave = tuple((other.model, _reason(other, want, forced)) for other in leaving)
    return MakeRoom(leave, missing)


def _reduced(want: Want, missing: Footprint) -> Want:
    left = {name: mib - missing.get(name, 0) for name, mib in want.footprint.items()}
    return attrs.evolve(want, footprint={name: mib for name, mib in left.items() if mib > 0})


def _fewest(
    asked: "_Room", forced: Sequence[Resident], candidates: Iterable[Resident]
) -> list[Resident]:
    """`forced`, and of the candidates the first ones that are needed for enough room."""
    leaving = list(forced)
    for candidate in candidates:
        if asked.enough(leaving):
            break
        if candidate not in leaving:
            leaving.append(candidate)
    # The last ones taken may have made some of the first ones needless: who is in use stays first.
    taken = [other for other in leaving if other not in forced]
    for candidate in sorted(taken, key=lambda other: not other.busy):
        rest = [other for other in leaving if other is not candidate]
        if asked.enough(rest):
            leaving = rest
    return leaving


def hopeless(
    want: Want,
    residents: Iterable[Resident],
    pools: Sequence[Pool],
    *,
    max_loaded: int | None = None,
) -> Refuse | None:
    """What no waiting changes: only pinned models stay, everybody else has left all memory.

    A pool that isn't there may only be unreadable for a moment.
    """
    pinned = [other for other in residents if other.pinned and other.model != want.model]
    known = {pool.name: want.footprint.get(pool.name, 0) for pool in pools}
    decision = decide(
        attrs.evolve(want, footprint=known), pinned, all_back(pools), max_loaded=max_loaded
    )
    return decision if isinstance(decision, Refuse) else None


def all_back(pools: Iterable[Pool]) -> list[Pool]:
    """The pools as if nothing but models, as they are counted, took any of them."""
    return [attrs.evolve(pool, free=pool.total) for pool in pools]


def clash(want: Want | Resident, other: Resident) -> bool:
    """Whether rules forbid the two to live together."""
    return want.exclusive or other.exclusive or want.group != other.group


@attrs.frozen
class _Room:
    want: Want
    others: list[Resident]
    pools: Sequence[Pool]
    max_loaded: int | None
    coming_seen: bool = False
    """Whether what is on its way into memory is seen as taken there."""

    def enough(self, leaving: Sequence[Resident]) -> bool:
        """Whether there is room once `leaving` have left."""
        return not self.missing(leaving) and not self.too_many(leaving)

    def too_many(self, leaving: Sequence[Resident]) -> bool:
        return self.max_loaded is not None and (
            len(self.others) - len(leaving) + 1 > self.max_loaded
        )

    def missing(self, leaving: Sequence[Resident]) -> dict[str, int]:
        short: dict[str, int] = {}
        for pool in self.pools:
            need = self.want.footprint.get(pool.name, 0)
            if not need:
                continue
            left = need - self._available(pool, leaving)
            if left > 0:
                short[pool.name] = left
        for name in self.want.footprint.keys() - {pool.name for pool in self.pools}:
            short[name] = self.want.footprint[name]
        return short

    def _available(self, pool: Pool, leaving: Sequence[Resident]) -> int:
        return min(self._free(pool, leaving), self._within(pool, leaving))

    def who_holds(self, pool: Pool, leaving: Sequence[Resident]) -> str:
        """What keeps the pool from having more once `leaving` have left."""
        if self._within(pool, leaving) <= self._free(pool, leaving):
            return f"all models together may take {_size(pool.budget)} of it"
        ours = sum(o.footprint.get(pool.name, 0) for o in self.others if not o.loading)
        return f"other programs hold {_size(max(0, pool.total - pool.free - ours))} of it"

    def _free(self, pool: Pool, leaving: Sequence[Resident]) -> int:
        # What is on its way into memory may not be seen there yet: count it as taken.
        staying = [] if self.coming_seen else self._staying(leaving)
        coming = sum(o.footprint.get(pool.name, 0) for o in staying if o.loading)
        going = sum(o.footprint.get(pool.name, 0) for o in leaving if not o.loading)
        own = self.want.footprint.get(pool.name, 0) if self.want.there else 0
        return pool.free - coming + going + own

    def _within(self, pool: Pool, leaving: Sequence[Resident]) -> int:
        return pool.budget - sum(o.footprint.get(pool.name, 0) for o in self._staying(leaving))

    def _staying(self, leaving: Sequence[Resident]) -> list[Resident]:
        gone = {other.model for other in leaving}
        return [other for other in self.others if other.model not in gone]


def _worth_keeping(resident: Resident) -> float:
    """Small leaves first: long idle, and cheap to bring back."""
    return -resident.idle_s / max(resident.reload_s, 0.1)


def _in_the_way(
    asked: _Room, clashing: list[Resident], movable: list[Resident], idle: list[Resident]
) -> list[str]:
    busy = [other for other in movable if other not in idle]
    if not asked.enough(idle):
        return [other.model for other in busy]
    return [other.model for other in clashing if other in busy]


def _in_the_end(
    asked: _Room, clashing: list[Resident], movable: list[Resident], idle: list[Resident]
) -> tuple[str, ...]:
    """Of those in the way the fewest that have to leave: loads that nobody waits for, held ones,
    and then of those in use who has been there longest."""
    loading = [other for other in movable if other.loading and other.wanted]
    busy = [other for other in movable if not (other in idle or other in loading)]
    busy.sort(key=lambda other: (other.busy, not other.loading, -other.ready_s))
    forced = [other for other in clashing if other not in loading]
    leave = _fewest(asked, forced, [*sorted(idle, key=_worth_keeping), *busy])
    return tuple(other.model for other in busy if other in leave) if asked.enough(leave) else ()


def _refusal(asked: _Room, movable: list[Resident]) -> Refuse:
    missing = asked.missing(movable)
    fixed = [other for other in asked.others if other.pinned or other.stays]
    if not missing:
        return Refuse(why=f"{_fixed(fixed)}, and no more may be loaded", missing={})
    held = [asked.who_holds(pool, movable) for pool in asked.pools if pool.name in missing]
    parts = [f"{_size(mib)} of {name}" for name, mib in sorted(missing.items())]
    why = f"{' and '.join(parts)} are missing even with every other model unloaded"
    if fixed:
        why += f"; {_fixed(fixed)}"
    return Refuse(why="; ".join([why, *held]), missing=missing)


def _size(mib: int) -> str:
    return f"{mib} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def _fixed(models: Sequence[Resident]) -> str:
    pinned = [other.model for other in models if other.pinned]
    stay = [other.model for other in models if not other.pinned]
    parts = [f"{_names(pinned)} is pinned"] if pinned else []
    if stay:
        parts.append(f"{_names(stay)} did not leave when asked to")
    return ", ".join(parts)


def _reason(other: Resident, want: Want, forced: list[Resident]) -> str:
    if other not in forced:
        return f"room for {want.model}; idle for {other.idle_s:.0f} s"
    if want.exclusive:
        return f"{want.model} lives alone"
    if other.exclusive:
        return f"it lives alone, and {want.model} is wanted"
    return f"it is not in the group of {want.model}"


def _names(models: Sequence[str]) -> str:
    return ", ".join(models)
