"""Who used the energy: by time and by tokens, and together all of it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.gpu.baseline import KEPT, Baseline
from cerberus_core.gpu.shares import Span, above_idle, busy_s, split


def joules(total: float, *spans: Span) -> list[float]:
    return [round(part.joules, 6) for part in split(total, spans)]


def test_one_alone_gets_it_all() -> None:
    [part] = split(100, [Span(2, 5)])
    assert (part.joules, part.shared) == (100, False)


def test_two_at_the_same_time_share_evenly_where_nobody_makes_tokens() -> None:
    assert joules(100, Span(0, 10), Span(0, 10)) == [50, 50]


def test_half_goes_by_time_and_half_by_tokens() -> None:
    assert joules(100, Span(0, 10, 30), Span(0, 10, 10)) == [25 + 37.5, 25 + 12.5]


def test_each_segment_is_shared_among_those_who_are_there() -> None:
    assert joules(100, Span(0, 6), Span(4, 10)) == [50, 50]
    assert joules(120, Span(0, 10), Span(0, 2)) == [108, 12]
    assert [part.shared for part in split(1, [Span(0, 1), Span(1, 2), Span(1.5, 3)])] == [
        False,
        True,
        True,
    ]


def test_rounding_errors_of_a_fast_one_do_not_reach_those_after_it() -> None:
    parts = joules(90, Span(0, 1, 1e6), Span(0, 1, 1 / 3), Span(5, 6, 0.001))
    assert parts[2] == 45
    assert sum(parts) == pytest.approx(90)


def test_an_engine_that_boasts_costs_the_others_nothing() -> None:
    assert joules(200, Span(0, 1, 1e17), Span(0, 2, 1)) == pytest.approx([75, 125], rel=1e-4)


def test_nobody_gets_what_nobody_used() -> None:
    assert joules(100, Span(5, 5)) == [0]
    assert split(100, []) == []


def test_time_is_counted_once_and_gaps_not_at_all() -> None:
    assert busy_s([Span(0, 3), Span(1, 2), Span(5, 6)]) == 4


def test_the_idle_draw_is_taken_off_for_the_whole_of_a_short_step() -> None:
    assert above_idle(100, 1, busy=0.5, idle_w=20, long_s=2) == 80
    assert above_idle(10, 1, busy=0.5, idle_w=20, long_s=2) == 0


def test_after_a_long_idle_time_its_energy_is_not_laid_upon_the_first_moment() -> None:
    assert above_idle(3600 * 25, 3600, busy=0.01, idle_w=20, long_s=2) == pytest.approx(0.05)


_SPAN = st.tuples(
    st.floats(min_value=0, max_value=10),
    st.floats(min_value=0, max_value=10),
    st.floats(min_value=0, max_value=1000) | st.sampled_from([1e6, 1e17, math.inf]),
)


@given(st.floats(min_value=0, max_value=1e6), st.lists(_SPAN, min_size=1, max_size=12))
def test_the_parts_add_up_and_none_is_negative(
    total: float, rows: list[tuple[float, float, float]]
) -> None:
    spans = [Span(min(a, b), max(a, b), rate) for a, b, rate in rows]
    parts = [part.joules for part in split(total, spans)]
    expected = total if busy_s(spans) > 0 else 0
    assert sum(parts) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert min(parts) >= -1e-6 * max(total, 1)


def test_the_idle_draw_is_learned_and_loads_now_and_then_do_not_raise_it() -> None:
    baseline = Baseline()
    assert baseline.watts is None
    for watts in [20, 21, 250, 20, 22, 250, 21]:
        baseline.observe(watts, 5)
    assert 20 <= (baseline.watts or 0) <= 21
    baseline.observe(0, 0.1)
    assert 20 <= (baseline.watts or 0) <= 21
    for _ in range(KEPT):
        baseline.observe(55, 5)
    assert baseline.watts == 55
