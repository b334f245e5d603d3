"""When a provider says that asking again helps, in all the ways in which they say it."""

from datetime import UTC, datetime

import pytest

from cerberus_core.gateway.quota import passed_on, wait_s

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "9e99"}, None),
        ({"retry-after": "7", "retry-after-ms": "6500"}, 6.5),
        ({"retry-after": "7", "x-ratelimit-reset-requests": "60s"}, 7),
        ({"x-ratelimit-reset-requests": "120ms"}, 0.12),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-tokens": "2d"}, 172800),
        ({"x-ratelimit-reset": str(NOW.timestamp() + 9)}, 9),
        ({"x-ratelimit-reset": str(int(NOW.timestamp() * 1000) + 9000)}, 9),
        ({"anthropic-ratelimit-requests-reset": "2026-01-01T12:01:00Z"}, 60),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW.timestamp()) + 3600)}, 3600),
        ({"anthropic-ratelimit-tokens-reset": "tomorrow"}, None),
    ],
)
def test_each_providers_words_for_when(headers: dict[str, str], seconds: float | None) -> None:
    found = wait_s(headers, NOW)
    assert found == (seconds if seconds is None else pytest.approx(seconds, abs=1e-3))


def test_the_latest_of_the_limits_of_which_nothing_is_left_counts() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "2s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "5s",
        "x-ratelimit-remaining-images": "3",
        "x-ratelimit-reset-images": "1h",
    }
    assert wait_s(headers, NOW) == 5
    anthropics = {
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-01-01T13:00:00Z",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-01-01T12:00:20Z",
    }
    assert wait_s(anthropics, NOW) == 20


def test_nothing_but_limits_is_passed_on() -> None:
    headers = {
        "retry-after": "7",
        "x-ratelimit-limit-requests": "60",
        "anthropic-ratelimit-tokens-reset": "2026-01-01T12:00:20Z",
        "set-cookie": "spy=1",
        "openai-organization": "acme",
        "content-length": "3",
    }
    assert [name for name, _ in passed_on(headers)] == [
        b"retry-after",
        b"x-ratelimit-limit-requests",
        b"anthropic-ratelimit-tokens-reset",
    ]
