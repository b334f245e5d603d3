"""Making room: worked examples, and what holds for every state."""

from collections.abc import Mapping

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.engines.residency import (
    Decision,
    Go,
    MakeRoom,
    Pool,
    Refuse,
    Resident,
    Wait,
    Want,
    clash,
    decide,
    hopeless,
)


def host(free: int, *, total: int = 10_000, budget: int | None = None) -> Pool:
    return Pool(name="host", total=total, free=free, budget=total if budget is None else budget)


def resident(model: str, mib: int, **more: object) -> Resident:
    return Resident(model=model, footprint={"host": mib}, **more)  # type: ignore[arg-type]


def want(mib: int, **more: object) -> Want:
    return Want(model="new", footprint={"host": mib} if mib else {}, **more)  # type: ignore[arg-type]


def leaving(decision: Decision) -> list[str]:
    assert isinstance(decision, MakeRoom), decision
    return [model for model, _ in decision.leave]


def test_there_is_room() -> None:
    assert decide(want(100), [resident("a", 50)], [host(100)]) == Go()


def test_the_one_that_was_idle_longest_leaves_and_only_that_one() -> None:
    here = [resident("a", 500, idle_s=10), resident("b", 500, idle_s=90)]
    assert leaving(decide(want(400), here, [host(0)])) == ["b"]


def test_what_is_cheap_to_bring_back_leaves_before_what_is_dear() -> None:
    here = [
        resident("dear", 500, idle_s=100, reload_s=100),
        resident("cheap", 500, idle_s=20, reload_s=1),
    ]
    assert leaving(decide(want(400), here, [host(0)])) == ["cheap"]


def test_a_small_one_is_spared_where_a_big_one_makes_all_the_room() -> None:
    here = [resident("small", 10, idle_s=100), resident("big", 900, idle_s=50)]
    assert leaving(decide(want(800), here, [host(0)])) == ["big"]


def test_a_model_in_use_is_waited_for() -> None:
    here = [resident("busy", 500, busy=True)]
    assert decide(want(400), here, [host(0)]) == Wait(("busy",), ("busy",))
    assert decide(want(400), [resident("coming", 500, loading=True)], [host(400)]) == Wait(
        ("coming",)
    )


def test_of_those_in_use_only_as_many_as_must_leave_in_the_end_the_longest_there_first() -> None:
    here = [
        resident("new", 300, busy=True, ready_s=5),
        resident("old", 300, busy=True, ready_s=60),
        resident("small", 100, busy=True, ready_s=90),
        resident("idle", 100, idle_s=1),
    ]
    asked = Want(model="asked", footprint={"host": 350})
    assert decide(asked, here, [host(0)]) == Wait(("new", "old", "small"), ("old",))
    coming = [resident("busy", 100, busy=True), resident("coming", 900, loading=True)]
    assert decide(asked, coming, [host(900)]) == Wait(("busy", "coming"))


def test_what_is_on_its_way_counts_as_taken() -> None:
    here = [resident("coming", 500, loading=True)]
    assert decide(want(400), here, [host(900)]) == Go()
    assert isinstance(decide(want(400), here, [host(899)]), Wait)


def test_nobody_leaves_for_one_that_fits_beside_a_load_whose_memory_is_seen_already() -> None:
    here = [resident("idle", 500, idle_s=90), resident("coming", 300, loading=True)]
    memory = {"total": 1200, "budget": 1200}
    assert decide(want(300), here, [host(400, **memory)]) == Wait(("coming",))
    assert leaving(decide(want(300), here, [host(299, **memory)])) == ["idle"]
    alone = [attrs.evolve(here[0], exclusive=True), here[1]]
    assert leaving(decide(want(300), alone, [host(400, **memory)])) == ["idle"]


def test_a_held_one_is_waited_for_where_nobody_else_will_do() -> None:
    here = [resident("held", 500, idle_s=900, held_s=7), resident("b", 500, idle_s=1)]
    assert leaving(decide(want(400), here, [host(0)])) == ["b"]
    assert decide(want(900), here, [host(0)]) == Wait(("held",), ("held",), 7)
    alone = [resident("held", 1, held_s=7), resident("busy", 1, busy=True)]
    both = ("held", "busy")
    assert decide(want(1, exclusive=True), alone, [host(9)]) == Wait(both, both, 7)


def test_a_pinned_one_never_leaves_and_is_named() -> None:
    decision = decide(want(600), [resident("p", 500, pinned=True)], [host(100)])
    assert isinstance(decision, Refuse)
    assert decision.missing == {"host": 500}
    assert "p" in decision.why
    assert "500 MiB of host" in decision.why
    assert "other programs hold 9400 MiB of it" in decision.why


def test_the_budget_holds_even_where_more_is_free() -> None:
    here = [resident("a", 500, idle_s=1)]
    assert decide(want(400), here, [host(9_000, budget=900)]) == Go()
    assert leaving(decide(want(401), here, [host(9_000, budget=900)])) == ["a"]
    decision = decide(want(901), here, [host(9_000, budget=900)])
    assert isinstance(decision, Refuse)
    assert decision.missing == {"host": 1}
    assert "all models together may take 900 MiB of it" in decision.why


def test_what_others_hold_can_not_be_had() -> None:
    decision = decide(want(600), [resident("a", 100)], [host(400)])
    assert isinstance(decision, Refuse)
    assert decision.missing == {"host": 100}


def test_one_that_lives_alone() -> None:
    here = [resident("a", 1), resident("b", 1, busy=True)]
    assert decide(want(1, exclusive=True), here, [host(9_000)]) == Wait(("b",), ("b",))
    here = [resident("a", 1), resident("b", 1)]
    assert leaving(decide(want(1, exclusive=True), here, [host(9_000)])) == ["a", "b"]
    assert leaving(decide(want(1), [resident("x", 1, exclusive=True)], [host(9_000)])) == ["x"]


def test_groups_live_with_themselves() -> None:
    here = [resident("a", 1, group="coding"), resident("b", 1, group="voice")]
    assert leaving(decide(want(1, group="coding"), here, [host(9_000)])) == ["b"]
    pinned = [resident("p", 1, group="voice", pinned=True)]
    assert isinstance(decide(want(1, group="coding"), pinned, [host(9_000)]), Refuse)


def test_a_number_of_models() -> None:
    here = [resident("a", 1, idle_s=5), resident("b", 1, idle_s=9)]
    assert leaving(decide(want(1), here, [host(9_000)], max_loaded=2)) == ["b"]
    pinned = [attrs.evolve(each, pinned=True) for each in here]
    assert isinstance(decide(want(1), pinned, [host(9_000)], max_loaded=2), Refuse)


def test_an_unknown_size_only_minds_the_rules() -> None:
    assert decide(want(0), [resident("a", 500)], [host(0)]) == Go()


def test_a_pool_that_is_not_there_is_missing() -> None:
    asked = Want(model="new", footprint={"gpu0": 5})
    decision = decide(asked, [], [host(100)])
    assert isinstance(decision, Refuse)
    assert decision.missing == {"gpu0": 5}
    assert hopeless(asked, [], [host(100)]) is None, "it may be back in a moment"


def test_what_no_waiting_changes() -> None:
    here = [resident("p", 500, pinned=True), resident("b", 400, busy=True)]
    assert hopeless(want(500), here, [host(0, total=1000)]) is None
    decision = hopeless(want(501), here, [host(0, total=1000)])
    assert decision is not None
    assert decision.missing == {"host": 1}
    assert hopeless(want(0, exclusive=True), here, []) is not None
    assert hopeless(want(0), here, [], max_loaded=1) is not None
    assert hopeless(want(0), here, [], max_loaded=2) is None


POOLS = ("host", "gpu0", "gpu1")
footprints: st.SearchStrategy[Mapping[str, int]] = st.dictionaries(
    st.sampled_from(POOLS), st.integers(0, 1000), max_size=3
)
residents = st.lists(
    st.builds(
        Resident,
        model=st.sampled_from("abcdef"),
        footprint=footprints,
        loading=st.booleans(),
        wanted=st.booleans(),
        stays=st.booleans(),
        busy=st.booleans(),
        pinned=st.booleans(),
        held_s=st.sampled_from([0.0, 5.0]),
        idle_s=st.floats(0, 1e6),
        reload_s=st.floats(0, 1e3),
        group=st.sampled_from([None, "x", "y"]),
        exclusive=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda each: each.model,
)
pools = st.tuples(
    *(
        st.builds(
            Pool,
            name=st.just(name),
            total=st.just(4000),
            free=st.integers(0, 4000),
            budget=st.integers(0, 4000),
        )
        for name in POOLS
    )
)
wants = st.builds(
    Want,
    model=st.just("new"),
    footprint=footprints,
    group=st.sampled_from([None, "x", "y"]),
    exclusive=st.booleans(),
)


@given(wants, residents, pools, st.one_of(st.none(), st.integers(1, 4)))
def test_what_holds_for_every_state(
    asked: Want, here: list[Resident], memory: tuple[Pool, ...], most: int | None
) -> None:
    decision = decide(asked, here, memory, max_loaded=most)
    by_name = {each.model: each for each in here}
    if isinstance(decision, MakeRoom):
        gone = [by_name[model] for model, _ in decision.leave]
        assert gone
        assert not any(each.busy or each.loading or each.held_s for each in gone)
        assert not any(each.pinned or each.stays for each in gone)
        after = [each for each in here if each not in gone]
        freed = tuple(
            attrs.evolve(
                pool, free=pool.free + sum(each.footprint.get(pool.name, 0) for each in gone)
            )
            for pool in memory
        )
        assert decide(asked, after, freed, max_loaded=most) == Go()
        # Nobody leaves for nothing.
        for spared in gone:
            if not clash(asked, spared):
                again = [*after, spared]
                less = tuple(
                    attrs.evolve(pool, free=pool.free - spared.footprint.get(pool.name, 0))
                    for pool in freed
                )
                assert decide(asked, again, less, max_loaded=most) != Go()
    elif isinstance(decision, Wait):
        assert decision.busy
        named = [by_name[model] for model in decision.busy]
        assert all(each.busy or each.loading or each.held_s for each in named)
        # Of those who have to leave in the end none is spared for nothing.
        in_the_end = [by_name[model] for model in decision.leave]
        assert not any(each.pinned or each.stays for each in in_the_end)
        assert not any(each.loading and each.wanted for each in in_the_end)
        assert set(decision.leave) <= set(decision.busy)
        # Once they are done and idle, it is not a matter of waiting any more.
        done = [attrs.evolve(each, busy=False, loading=False, held_s=0.0) for each in here]
        seen = tuple(
            attrs.evolve(
                pool,
                free=pool.free
                - sum(each.footprint.get(pool.name, 0) for each in here if each.loading),
            )
            for pool in memory
        )
        then = decide(asked, done, seen, max_loaded=most)
        if any(each.loading for each in here):
            assert not isinstance(then, Wait)
        else:
            assert isinstance(then, MakeRoom | Go)
    elif isinstance(decision, Go):
        assert not any(clash(asked, each) for each in here)
        for pool in memory:
            taken = sum(each.footprint.get(pool.name, 0) for each in here)
            need = asked.footprint.get(pool.name, 0)
            if need:
                assert taken + need <= pool.budget
                assert need <= pool.free
    else:
        assert decision.why


@pytest.mark.parametrize("most", [1, 2])
def test_one_that_is_here_already_is_no_neighbour_of_itself(most: int) -> None:
    here = [Resident(model="new", footprint={"host": 400}, exclusive=True)]
    assert decide(want(400, exclusive=True), here, [host(400)], max_loaded=most) == Go()


def test_one_that_may_be_larger_than_memory_gets_what_there_can_be() -> None:
    big = want(20_000, oversize=True)
    idle, busy = resident("idle", 300), resident("busy", 500, busy=True)
    pinned = resident("pinned", 200, pinned=True)
    assert decide(big, [], [host(9_000)]) == Go({"host": 11_000})
    room = decide(big, [idle, pinned], [host(8_500)])
    assert leaving(room) == ["idle"]
    assert isinstance(room, MakeRoom)
    assert room.missing == {"host": 20_000 - 8_800}
    assert decide(big, [idle, busy], [host(8_200)]) == Wait(
        ("busy",), ("busy",), missing={"host": 11_000}
    )
    assert isinstance(decide(want(20_000), [], [host(9_000)]), Refuse)
    assert decide(want(400, oversize=True), [], [host(9_000)]) == Go()
    assert isinstance(decide(big, [pinned], [host(9_000)], max_loaded=1), Refuse), "rules hold"


@given(wants, residents, pools)
def test_only_rules_refuse_one_that_may_be_larger(
    asked: Want, here: list[Resident], memory: tuple[Pool, ...]
) -> None:
    decision = decide(attrs.evolve(asked, oversize=True), here, memory)
    assert not isinstance(decision, Refuse) or any(
        (each.pinned or each.stays) and clash(asked, each) for each in here
    )
