"""From readings to joules: counters first, power where there is none, never falling."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.gpu.integrate import MAX_GAP_S, MAX_W, SLACK_S, Integrator, Sample, Step


def after(*samples: Sample) -> tuple[Integrator, list[Step | None]]:
    integrator = Integrator()
    return integrator, [integrator.take(sample) for sample in samples]


def counter(at: float, joules: float | None, **more: float | None) -> Sample:
    return Sample(at=at, counter_j=joules, **more)  # type: ignore[arg-type]


def power(at: float, watts: float | None) -> Sample:
    return Sample(at=at, power_w=watts)


def test_nothing_is_known_before_two_readings() -> None:
    integrator, steps = after(counter(0, 5000))
    assert steps == [None]
    assert integrator.total_j is None
    assert integrator.until(1) == (None, False)


def test_a_difference_of_the_counter_is_the_energy_however_long_it_took() -> None:
    integrator, steps = after(counter(0, 5000), counter(1, 5100), counter(3601, 8100))
    assert steps[1] == Step(start=0, end=1, joules=100, counted=True)
    assert integrator.total_j == 3100


def test_power_is_integrated_where_there_is_no_counter() -> None:
    integrator, steps = after(power(0, 100), power(1, 200), power(3, 200))
    assert steps[1] == Step(start=0, end=1, joules=150, counted=False)
    assert integrator.total_j == 550


def test_power_is_not_integrated_over_a_gap_as_after_suspend() -> None:
    integrator, steps = after(power(0, 100), power(1, 100), power(2 + MAX_GAP_S, 100))
    assert steps[2] == Step(start=1, end=2 + MAX_GAP_S, joules=None, counted=False)
    assert integrator.total_j == 100


def test_a_wrap_at_a_known_maximum_counts_on() -> None:
    integrator, _ = after(counter(0, 990, wraps_at_j=1000), counter(1, 20, wraps_at_j=1000))
    assert integrator.total_j == 30


def test_a_wrap_at_an_unreadable_maximum_is_unknown_and_takes_nothing_away() -> None:
    integrator, steps = after(counter(0, 900), counter(1, 990), counter(2, 20), counter(3, 50))
    assert [step.joules for step in steps if step] == [90, None, 30]
    assert integrator.total_j == 120


def test_a_counter_that_was_reset_gives_way_to_power() -> None:
    integrator, steps = after(
        counter(0, 10**6, power_w=200.0, wraps_at_j=10**9),
        counter(1, 3, power_w=200.0, wraps_at_j=10**9),
        counter(2, 203, power_w=200.0, wraps_at_j=10**9),
    )
    assert [(s.joules, s.counted) for s in steps if s] == [(200, False), (200, True)]
    assert integrator.total_j == 400


def test_a_counter_that_leaps_is_not_believed() -> None:
    integrator, _ = after(
        counter(0, 100, power_w=50.0),
        counter(1, 10**7, power_w=50.0),
        counter(2, 200, power_w=50.0),
    )
    assert integrator.total_j == 100


def test_a_counter_that_comes_back_is_not_counted_twice() -> None:
    integrator, steps = after(
        counter(0, 100, power_w=50.0), power(1, 50), counter(2, 180, power_w=30.0)
    )
    assert [s.joules for s in steps if s] == [50, 30]
    assert [s.counted for s in steps if s] == [False, False], "some of the second is the first's"
    assert integrator.total_j == 80


def test_a_counter_may_be_renewed_later_than_it_is_read() -> None:
    integrator, _ = after(counter(0, 0), counter(0.1, 2 * MAX_W * 0.1))
    assert integrator.total_j == 2 * MAX_W * 0.1
    integrator, _ = after(counter(0, 0), counter(0.1, 2 * MAX_W * SLACK_S))
    assert integrator.total_j is None


def test_a_power_that_no_card_draws_is_not_believed() -> None:
    integrator, steps = after(power(0, 100), power(1, 1e308), power(2, 100))
    assert steps[1] is None
    assert integrator.total_j == 200


def test_a_reading_without_anything_leaves_the_counter_its_place() -> None:
    integrator, steps = after(counter(0, 100), counter(1, None), counter(2, 150))
    assert steps == [None, None, Step(start=0, end=2, joules=50, counted=True)]
    assert integrator.total_j == 50


@pytest.mark.parametrize("at", [1.0, 0.5])
def test_a_clock_that_stands_or_goes_back_adds_nothing(at: float) -> None:
    integrator, _ = after(counter(0, 0), counter(1, 10), counter(at, 20))
    assert integrator.total_j == 10


def test_what_came_while_the_clock_stood_is_not_lost() -> None:
    integrator, _ = after(counter(0, 0), counter(0, 10), counter(1, 20))
    assert integrator.total_j == 20


def test_the_last_power_is_carried_on_for_a_while_and_marked() -> None:
    integrator, _ = after(counter(0, 0, power_w=10.0), counter(1, 10, power_w=20.0))
    assert integrator.until(1) == (10, False)
    assert integrator.until(3) == (50, True)
    assert integrator.until(2 + MAX_GAP_S) == (10, False)


_VALUES = st.none() | st.floats() | st.floats(min_value=0, max_value=1e6)


@given(
    st.lists(
        st.tuples(st.floats(min_value=-1, max_value=100), _VALUES, _VALUES, _VALUES), max_size=30
    )
)
def test_the_total_never_falls_whatever_is_read(
    rows: list[tuple[float, float | None, float | None, float | None]],
) -> None:
    integrator, at, before = Integrator(), 0.0, 0.0
    for forward, joules, watts, wraps_at in rows:
        at += forward
        integrator.take(Sample(at=at, counter_j=joules, power_w=watts, wraps_at_j=wraps_at))
        total = integrator.total_j
        assert total is None or (math.isfinite(total) and total >= before)
        before = total or before
