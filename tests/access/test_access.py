"""Who may come in: names, origins, tokens, cookies, codes. Pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.access import Hosts, OneTimeCodes, bearer_matches, check_cookie, make_cookie
from cerberus_core.access.codes import _ALPHABET, LIFE_S
from cerberus_core.testing import FakeClock

LOCAL = Hosts(bind="127.0.0.1", allowed=["box.lan"], public_url="https://cerberus.example")
OPEN = Hosts(bind="0.0.0.0")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:7733", "localhost", "LOCALHOST:1", "[::1]:7733", "[::1]", "box.lan",
     "cerberus.example:443", "localhost."],
)  # fmt: skip
def test_u01_our_own_names_are_ours(host: str) -> None:
    assert LOCAL.host_allowed(host)


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example:7733", "localhost.evil.example", "127.0.0.1.evil.example",
     "evil@127.0.0.1", "127.0.0.1/x", "127.0.0.1:port", "10.0.0.5", "[::2]", "[", "a b"],
)  # fmt: skip
def test_u01_foreign_names_are_not(host: str | None) -> None:
    assert not LOCAL.host_allowed(host)


def test_where_we_listen_on_all_addresses_an_address_is_fine_and_a_name_is_not() -> None:
    assert OPEN.host_allowed("192.168.1.5:7733")
    assert OPEN.host_allowed("[fe80::1]")
    assert not OPEN.host_allowed("evil.example")


@given(st.text(max_size=40))
def test_no_host_makes_the_check_raise(host: str) -> None:
    LOCAL.host_allowed(host)


def test_u02_origins() -> None:
    host = "127.0.0.1:7733"
    assert LOCAL.origin_allowed("http://127.0.0.1:7733", host)
    assert LOCAL.origin_allowed("https://cerberus.example", "internal:7733")
    for origin in ("https://evil.example", "null", "http://127.0.0.1:77331",
                   "http://127.0.0.1:7733.evil.example", "http://localhost:7733"):  # fmt: skip
        assert not LOCAL.origin_allowed(origin, host)


def test_the_bearer_token() -> None:
    assert bearer_matches(b"Bearer abc", "abc")
    assert bearer_matches(b"bearer abc", "abc")
    for header in (
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic abc",
        b"Bearer abcd",
        b"abc",
        b"Bearer \xff",
    ):
        assert not bearer_matches(header, "abc")


def test_a_cookie_is_good_for_a_month_and_for_its_token_alone() -> None:
    value = make_cookie("secret", 1000.0)
    assert check_cookie(value, "secret", 1000.0)
    assert check_cookie(value, "secret", 1000.0 + 29 * 86400)
    assert not check_cookie(value, "secret", 1000.0 + 31 * 86400)
    assert not check_cookie(value, "other", 1000.0)
    assert not check_cookie(value[:-1] + ("0" if value[-1] != "0" else "1"), "secret", 1000.0)
    assert "secret" not in value


@given(st.text(max_size=80))
def test_no_made_up_cookie_is_good(value: str) -> None:
    assert not check_cookie(value, "secret", 1000.0)


@pytest.mark.anyio
async def test_a_code_is_good_once_and_for_five_minutes() -> None:
    clock = FakeClock()
    codes = OneTimeCodes(clock)
    code = codes.issue()
    assert codes.redeem(f" {code.lower()} ")
    assert not codes.redeem(code)
    old = codes.issue()
    await clock.advance(LIFE_S + 1)
    assert not codes.redeem(old)


def test_wrong_codes_keep_nobody_out_and_a_code_is_too_long_to_guess() -> None:
    codes = OneTimeCodes(FakeClock())
    code = codes.issue()
    for _ in range(1000):
        assert not codes.redeem("WRONG")
    assert codes.redeem(code)
    tries = 10_000 * LIFE_S
    assert tries / len(_ALPHABET) ** len(code) < 1e-8
