"""The meter's figures, each with its value. Pure."""

import json
from typing import Any

import pytest

from cerberus_core.gateway.assemble import Assembler
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import OpenAIStream
from cerberus_core.testing.scripted import chat_chunks

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}


def taken(usage: Any = None, timings: Any = None, **more: Any) -> Facts:
    facts = Facts(**more)
    if usage is not None:
        facts.take_usage(json.dumps(usage).encode())
    if timings is not None:
        facts.take_timings(json.dumps(timings).encode())
    return facts


@pytest.mark.parametrize(
    ("facts", "speed"),
    [
        (taken(USAGE, first_at=10.0, last_at=10.5), 8.0),  # 4 tokens after the first
        (taken(pieces=4, first_at=10.0, last_at=12.0), 1.5),  # the pieces, where none tells
        (taken(USAGE, pieces=3, first_at=10.0, last_at=13.0), 1.33),
        (taken(pieces=1, first_at=10.0, last_at=10.0), None),
        (taken(USAGE, pieces=1, first_at=10.0, last_at=10.0), None),  # all came at once
        (taken(USAGE), None),
        (taken(), None),
    ],
)
def test_speed_is_tokens_after_the_first_over_their_time(facts: Facts, speed: float | None) -> None:
    assert facts.tok_per_sec() == speed


def test_the_engines_own_timings_are_preferred() -> None:
    timings = {"cache_n": 7, "predicted_n": 5, "predicted_per_second": 44.4449}
    facts = taken(USAGE, timings, first_at=10.0, last_at=10.5)
    assert (facts.tok_per_sec(), facts.cached_tokens) == (44.44, 7)


@pytest.mark.parametrize(
    "timings",
    [
        {"predicted_n": 1, "predicted_per_second": 44.0},  # one token has no duration
        {"predicted_n": 5, "predicted_per_second": 1e6},
        {"predicted_n": 5, "predicted_per_second": 0},
        {"predicted_n": 5, "predicted_per_second": "fast"},
        {"predicted_n": 5},
        [],
    ],
)
def test_timings_that_can_not_be_are_not_believed(timings: Any) -> None:
    assert taken(USAGE, timings, first_at=10.0, last_at=10.5).tok_per_sec() == 8.0


def test_tokens_are_the_engines_else_the_pieces_that_were_counted() -> None:
    told, counted, nothing = taken(USAGE, pieces=3), taken(pieces=3), taken()
    assert (told.prompt_tokens, told.tokens, told.cached_tokens, told.counted) == (9, 5, 4, False)
    assert (counted.prompt_tokens, counted.tokens, counted.counted) == (None, 3, True)
    assert (nothing.tokens, nothing.counted) == (None, False)


@pytest.mark.parametrize("whole", [True, False], ids=["put together", "passed on"])
def test_times_are_of_the_first_and_the_last_content(whole: bool) -> None:
    now = 0.0
    facts = Facts()
    stream: Any = (
        Assembler(facts, now=lambda: now)
        if whole
        else OpenAIStream(facts, public_model=None, wants_usage=False, now=lambda: now)
    )
    for event in chat_chunks(["", "a", "b", "c"], usage=None):
        now += 1.0
        stream.feed(event)
    assert (facts.first_at, facts.last_at, facts.pieces) == (2.0, 4.0, 3)
    assert facts.tok_per_sec() == 1.0
