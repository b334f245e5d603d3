"""Gateway keys: scopes, limits, prices, and books that a restart keeps."""

import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from anyio.to_thread import run_sync as in_thread
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.access import Account, Amounts, Key, Keys, Limit, Prices, Reservation, renews_at
from cerberus_core.access.key import check, matches
from cerberus_core.access.limits import Ask, may, period
from cerberus_core.config import ModelPrice
from cerberus_core.errors import AccessDenied, BadRequest, Forbidden, LimitReached, Unavailable
from cerberus_core.store import Database, database
from cerberus_core.testing import FakeClock
from cerberus_core.values import ModelInfo
from tests.disks import fill, small_disk_at

NOW = datetime(2026, 1, 31, 22, 0, tzinfo=UTC)
HERE = ModelInfo(id="llamacpp/qwen", backend="llamacpp", name="qwen")
CLOUD = ModelInfo(id="acme/big/llama", backend="acme", name="big/llama", local=False)


def key(*limits: tuple[Any, Any, float], **more: Any) -> Key:
    values: dict[str, Any] = {"id": "abc", "name": "laptop", "created_at": NOW, **more}
    return Key(limits=tuple(Limit(what=w, per=p, most=m) for w, p, m in limits), **values)


def spent(what: str, amount: float, now: datetime = NOW) -> dict[str, Amounts]:
    amounts = Amounts(**{what: amount})  # type: ignore[arg-type]
    return dict.fromkeys((period("day", now), period("month", now), "total"), amounts)


# What it is for.


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [("llamacpp/qwen", True), ("llamacpp/*", True), ("*", True), ("qwen", True), ("q*", True),
     ("ollama/*", False), ("QWEN", False), ("llama*", False), ("*/qwen", True), ("wen", False)],
)  # fmt: skip
def test_patterns_with_a_slash_are_of_ids_and_others_of_names(pattern: str, fits: bool) -> None:
    assert matches(pattern, HERE) is fits


def test_a_clouds_model_named_like_a_backend_is_not_that_backends() -> None:
    sly = ModelInfo(id="acme/llamacpp/qwen", backend="acme", name="llamacpp/qwen", local=False)
    assert not matches("llamacpp/*", sly)


def test_a_model_that_it_is_not_for_is_refused_with_what_is_allowed() -> None:
    refusal = may(key(models=("ollama/*", "tiny")), HERE, NOW, {})
    assert isinstance(refusal, Forbidden)
    assert refusal.code == "model_not_allowed"
    assert "ollama/*, tiny" in str(refusal.hint)
    assert may(key(models=("ollama/*", "qwen")), HERE, NOW, {}) is None
    assert may(key(), CLOUD, NOW, {}) is None


def test_a_key_for_local_models_reaches_no_cloud() -> None:
    refusal = may(key(cloud=False, models=("acme/*",)), CLOUD, NOW, {})
    assert isinstance(refusal, Forbidden)
    assert refusal.code == "cloud_not_allowed"
    assert may(key(cloud=False), HERE, NOW, {}) is None


# How much.


@pytest.mark.parametrize("what", ["requests", "tokens", "joules"])
@pytest.mark.parametrize("per", ["day", "month", "total"])
def test_a_limit_refuses_from_its_last_unit_on_and_says_when_it_renews(what: str, per: str) -> None:
    limited = key((what, per, 10))
    assert may(limited, HERE, NOW, spent(what, 9)) is None
    refusal = may(limited, HERE, NOW, spent(what, 10))
    assert isinstance(refusal, LimitReached)
    assert "'laptop'" in refusal.message
    # 22:00 of the last of January: the day and the month end in two hours.
    assert refusal.retry_after_s == (None if per == "total" else 7200)
    later = NOW + timedelta(hours=2)
    assert (may(limited, HERE, later, spent(what, 10)) is None) is (per != "total")


def test_of_two_limits_the_one_that_holds_longer_is_told() -> None:
    limited = key(("tokens", "day", 5), ("tokens", "month", 5))
    now = NOW.replace(day=3)
    refusal = may(limited, HERE, now, spent("tokens", 5, now))
    assert refusal is not None
    assert "5 tokens a month" in refusal.message
    assert refusal.retry_after_s == 28 * 86400 + 7200


def test_money_never_blocks_a_local_model_and_is_not_reserved_for_one() -> None:
    limited = key(("money", "day", 1))
    assert may(limited, HERE, NOW, spent("money", 5), ask=Ask(money=None)) is None
    assert isinstance(may(limited, CLOUD, NOW, spent("money", 5)), LimitReached)


def test_joules_never_block_a_cloud() -> None:
    limited = key(("joules", "day", 1))
    assert may(limited, CLOUD, NOW, spent("joules", 5)) is None


def test_an_unknown_price_is_refused_where_money_counts_and_says_how_to_set_it() -> None:
    refusal = may(key(("money", "total", 1)), CLOUD, NOW, {}, ask=Ask(money=None))
    assert isinstance(refusal, Forbidden)
    assert refusal.code == "price_unknown"
    assert '[prices."acme/big/llama"]' in str(refusal.hint)
    assert may(key(("tokens", "day", 1)), CLOUD, NOW, {}, ask=Ask(money=None)) is None


def test_one_alone_may_pass_the_limit_and_a_second_beside_it_may_not() -> None:
    limited = key(("tokens", "day", 100))
    assert may(limited, HERE, NOW, {}, ask=Ask(tokens=4000)) is None
    refusal = may(limited, HERE, NOW, {}, Amounts(tokens=60), Ask(tokens=41))
    assert isinstance(refusal, LimitReached)
    assert refusal.retry_after_s == 1
    assert may(limited, HERE, NOW, {}, Amounts(tokens=60), Ask(tokens=40)) is None


def test_fractions_that_are_left_of_what_was_given_back_block_nobody() -> None:
    account = Account(key(("joules", "day", 1.0)), b"")
    for joules in (0.1, 0.2, 0.3, 0.7):
        reservations = [begun(account, Ask(joules=joules)) for _ in range(2)]
        for reservation in reservations:
            if reservation is not None:
                reservation.settle(NOW)
                reservation.settle_joules(NOW, 0.1)
    account.reserved.joules += 1e-17
    assert begun(account, Ask(joules=5.0)) is not None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "end", "leave"]),
            st.integers(0, 200),
            st.floats(0, 1),
            st.integers(0, 4000),
        ),
        max_size=80,
    ),
    st.sampled_from(["tokens", "money", "requests", "joules"]),
    st.integers(0, 500),
)
def test_no_limit_is_passed_by_more_than_one_request_and_all_comes_back(
    steps: list[tuple[str, int, float, int]], what: str, most: int
) -> None:
    """Whatever runs beside whatever, where nobody takes more than was expected."""
    model = CLOUD if what == "money" else HERE
    account = Account(key((what, "total", most)), b"")
    running: list[tuple[Reservation, int]] = []
    largest, now = 1, NOW
    for step, asked, part, seconds in steps:
        now += timedelta(seconds=seconds)
        if step == "begin":
            begun_ = account.reserve(
                model, now, Ask(tokens=asked, money=float(asked), joules=float(asked))
            )
            if isinstance(begun_, Reservation):
                running.append((begun_, asked))
                largest = max(largest, asked)
        elif running:
            reservation, asked = running.pop(asked % len(running))
            took = int(asked * part) if step == "end" else 0
            reservation.settle(now, tokens=took, money=float(took))
            reservation.settle_joules(now, float(took))
            reservation.settle(now, tokens=asked, money=1.0)  # twice does nothing
            reservation.settle_joules(now, 1.0)
        total = account.in_period("total", now).of(what)  # type: ignore[arg-type]
        assert total <= most + largest
        if what == "requests":
            assert total <= most
    for reservation, _ in running:
        reservation.settle(now)
        reservation.settle_joules(now, 0.0)
    assert account.running == 0
    assert account.reserved.tokens == 0
    assert math.isclose(account.reserved.money + account.reserved.joules, 0.0, abs_tol=1e-9)


def named(name: str) -> Callable[[Key], Key]:
    return lambda key: attrs.evolve(key, name=name)


def begun(account: Account, ask: Ask | None = None, now: datetime = NOW) -> Reservation | None:
    answer = account.reserve(HERE, now, ask or Ask())
    return answer if isinstance(answer, Reservation) else None


def test_a_hundred_at_once_get_no_more_than_there_is() -> None:
    account = Account(key(("tokens", "day", 1000), ("requests", "day", 50)), b"")
    let_in = [one for _ in range(100) if (one := begun(account, Ask(tokens=30)))]
    assert len(let_in) == 33
    for one in let_in:
        one.settle(NOW, tokens=10)
        one.settle_joules(NOW, 0.0)
    assert account.in_period("day", NOW) == Amounts(requests=33, tokens=330)
    assert len([one for _ in range(100) if begun(account, Ask(tokens=1))]) == 17


def test_so_many_at_the_same_time_and_the_next_when_one_has_ended() -> None:
    account = Account(key(max_parallel=2), b"")
    first = begun(account)
    assert begun(account) is not None
    refusal = account.reserve(HERE, NOW, Ask())
    assert isinstance(refusal, LimitReached)
    assert refusal.retry_after_s == 1
    assert first is not None
    first.settle(NOW)
    assert begun(account) is not None


def test_a_request_over_midnight_counts_where_it_ends() -> None:
    account = Account(key(("tokens", "day", 100)), b"")
    late = begun(account, Ask(tokens=80), NOW)
    morning = NOW + timedelta(hours=3)
    assert begun(account, Ask(tokens=80), morning) is None, "what runs is still reserved"
    assert late is not None
    late.settle(morning, tokens=70)
    assert account.in_period("day", NOW).tokens == 0
    assert account.in_period("day", morning).tokens == 70
    assert account.in_period("month", morning) == Amounts(tokens=70), "a new month as well"


def test_a_clock_that_is_set_back_and_forth_gives_nothing_twice() -> None:
    account = Account(key(("requests", "day", 1)), b"")
    assert begun(account, now=NOW) is not None
    for days in (400, 0, -400, 0):
        moment = NOW + timedelta(days=days)
        assert (begun(account, now=moment) is not None) is (days != 0)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_a_period_ends_when_its_name_changes(now: datetime) -> None:
    for per in ("day", "month"):
        end = renews_at(per, now)  # type: ignore[arg-type]
        assert end is not None
        assert end > now
        before = end - timedelta(microseconds=1)
        assert period(per, before) == period(per, now)  # type: ignore[arg-type]
        assert period(per, end) != period(per, now)  # type: ignore[arg-type]


# Prices.


def test_prices_by_name_and_by_the_longest_pattern() -> None:
    prices = Prices(
        {
            "acme/*": ModelPrice(input=1.0, output=2.0),
            "acme/big/*": ModelPrice(input=3.0, output=15.0, cached=0.3),
            "acme/big/llama": ModelPrice(input=4.0),
        }
    )
    assert prices.cost("acme/small", 1_000_000, 500_000) == 2.0
    assert prices.cost("acme/big/other", 1_000_000, 100_000, 400_000) == pytest.approx(3.42)
    assert prices.cost("acme/big/llama", 1000, 1) is None, "its output has no price"
    assert prices.cost("acme/big/llama", 500_000, None, 500_000) == 2.0
    assert prices.cost("other/m", 1, 1) is None
    assert prices.cost("acme/small", None, 5) is None
    assert not Prices()


# What is no key.


@pytest.mark.parametrize(
    "wrong",
    [
        key(name=" "),
        key(name="a\x1bb"),
        key(name="x" * 65),
        key(name="taken"),
        key(models=("a b",)),
        key(models=("",)),
        key(("tokens", "day", -1)),
        key(("tokens", "day", float("nan"))),
        key(("tokens", "week", 1)),
        key(("words", "day", 1)),
        key(("tokens", "day", 1), ("tokens", "day", 2)),
        key(max_parallel=0),
        key(expires_at=NOW),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(wrong: Key) -> None:
    with pytest.raises(BadRequest):
        check(wrong, {"taken"})


def test_a_name_is_trimmed_and_a_time_without_a_zone_is_of_utc() -> None:
    made = check(key(name=" a b ", expires_at=datetime(2026, 2, 1)))
    assert made.name == "a b"
    assert made.expires_at == datetime(2026, 2, 1, tzinfo=UTC)


# All of them, in the state file.

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


async def keys_in(file: Path, clock: FakeClock | None = None) -> Keys:
    return await in_thread(lambda: Keys(Database(file), clock or FakeClock(NOW), Prices()))


async def made(keys: Keys, *limits: tuple[Any, Any, float], **more: Any) -> tuple[str, Account]:
    return await keys.add(
        lambda key_id, now: attrs.evolve(key(*limits, **more), id=key_id, created_at=now)
    )


async def test_a_token_has_256_bits_and_only_its_hash_is_kept(file: Path) -> None:
    keys = await keys_in(file)
    token, account = await made(keys)
    again, _ = await made(keys, name="other")
    assert token.startswith(f"ck-{account.key.id}-")
    assert len(token.removeprefix(f"ck-{account.key.id}-")) == 43
    assert token != again
    assert keys.admit(token.encode()) == account.principal
    written = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert token.encode() not in written
    assert token[-43:].encode() not in written
    assert token not in repr(account.key) + repr(account.principal)


async def test_nothing_but_the_whole_token_opens(file: Path) -> None:
    keys = await keys_in(file)
    token, account = await made(keys)
    other, _ = await made(keys, name="other")
    mixed = f"ck-{account.key.id}-{other[-43:]}"
    for wrong in (token[:-1], token + "x", mixed, f"ck-{account.key.id}-", "ck-", "ck", "", "ck-ä"):
        with pytest.raises(AccessDenied):
            keys.admit(wrong.encode())


async def test_an_expired_key_says_so_and_a_removed_one_is_unknown(file: Path) -> None:
    clock = FakeClock(NOW)
    keys = await keys_in(file, clock)
    token, account = await made(keys, expires_at=NOW + timedelta(days=1))
    keys.admit(token.encode())
    clock.jump(86400)
    with pytest.raises(AccessDenied, match="expired") as told:
        keys.admit(token.encode())
    assert told.value.code == "key_expired"
    clock.jump(-1)
    keys.admit(token.encode())
    await keys.remove(account.key.id)
    with pytest.raises(AccessDenied, match="unknown"):
        keys.admit(token.encode())
    with pytest.raises(AccessDenied, match="revoked"):
        keys.begin(account.principal, HERE, 1, 1)


async def test_a_restart_keeps_keys_and_spending_and_forgets_what_was_revoked(file: Path) -> None:
    keys = await keys_in(file)
    token, account = await made(keys, ("requests", "total", 2), models=("llamacpp/*",))
    gone, removed = await made(keys, name="gone")
    unused, _ = await made(keys, name="unused")
    for _ in range(2):
        reservation = keys.begin(account.principal, HERE, 10, 20)
        reservation.settle(NOW, tokens=25)
        reservation.settle_joules(NOW, 1.5)
    await keys.remove(removed.key.id)
    await keys.change(account.key.id, named("renamed"))
    await keys.flush()
    again = await keys_in(file)
    principal = again.admit(token.encode())
    assert principal.name == "renamed"
    again.admit(unused.encode())
    kept = again.account(principal)
    assert kept.key == attrs.evolve(account.key, name="renamed")
    assert kept.in_period("day", NOW) == Amounts(requests=2, tokens=50, joules=3.0)
    assert kept.last_used_at == NOW
    with pytest.raises(LimitReached):
        again.begin(principal, HERE, 1, 1)
    with pytest.raises(AccessDenied):
        again.admit(gone.encode())


async def test_after_a_crash_what_was_reserved_counts_as_spent(file: Path) -> None:
    keys = await keys_in(file)
    token, account = await made(keys, ("tokens", "day", 100))
    keys.begin(account.principal, HERE, 40, 40)
    await keys.flush()
    crashed = await keys_in(file)
    kept = crashed.account(crashed.admit(token.encode()))
    assert kept.in_period("day", NOW).tokens == 80
    assert (kept.running, kept.reserved) == (0, Amounts())


async def test_what_was_spent_is_written_down_within_a_second(file: Path) -> None:
    clock = FakeClock(NOW)
    keys = await keys_in(file, clock)
    _, account = await made(keys)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keys.run)
        for count in (1, 2):
            keys.begin(account.principal, HERE, 1, 1).settle(NOW, tokens=5)
            await clock.until_sleeping()
            await clock.advance(1.0)
            await in_thread(_until, file, lambda rows, count=count: rows == [(count,)] * 3)
        tasks.cancel_scope.cancel()


def _until(file: Path, good: Any) -> None:
    with sqlite3.connect(file) as other:
        while not good(other.execute("SELECT requests FROM key_spent").fetchall()):
            pass
    other.close()


@contextmanager
def locked(file: Path) -> Iterator[None]:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    yield
    other.rollback()
    other.close()


async def test_a_locked_file_makes_no_key_keeps_limits_and_a_revoked_one_shut(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.01)
    keys = await keys_in(file)
    token, account = await made(keys, ("requests", "day", 2))
    bad, removed = await made(keys, name="leaked")
    with locked(file):
        with pytest.raises(Unavailable, match="can't be written"):
            await made(keys, name="third")
        assert {one.key.name for one in keys.all()} == {"laptop", "leaked"}
        with pytest.raises(Unavailable, match="after a restart"):
            await keys.remove(removed.key.id)
        with pytest.raises(AccessDenied):
            keys.admit(bad.encode())
        with pytest.raises(Unavailable):
            await keys.change(account.key.id, named("other"))
        for _ in range(2):
            keys.begin(account.principal, HERE, 1, 1)
        assert not await keys.flush()
        with pytest.raises(LimitReached):
            keys.begin(keys.admit(token.encode()), HERE, 1, 1)
    assert await keys.flush()
    again = await keys_in(file)
    assert [one.key.name for one in again.all()] == ["laptop"]
    with pytest.raises(LimitReached):
        again.begin(again.admit(token.encode()), HERE, 1, 1)


async def until_it_is_full(keys: Keys) -> None:
    for number in range(100):
        await made(keys, name=f"key {number}", models=("m" * 4000,))


async def test_a_full_disk_makes_no_key_and_keeps_limits_and_what_was_spent(
    tmp_path: Path,
) -> None:
    with small_disk_at(tmp_path / "small", kib=256):
        file = tmp_path / "small" / "state.sqlite"
        keys = await keys_in(file)
        token, account = await made(keys, ("requests", "day", 1))
        ballast = await in_thread(fill, file.parent)
        with pytest.raises(Unavailable, match="can't be written"):
            await until_it_is_full(keys)
        keys.begin(account.principal, HERE, 1, 1)
        with pytest.raises(LimitReached):
            keys.begin(keys.admit(token.encode()), HERE, 1, 1)
        await in_thread(ballast.unlink)
        assert await keys.flush()
        kept = (await keys_in(file)).find(account.key.id)
        assert kept.in_period("day", NOW).requests == 1


@pytest.mark.parametrize(
    "damage",
    ["PRAGMA user_version = 99", "UPDATE keys SET key = '{\"id\": 1}'", "DROP TABLE key_spent",
     "UPDATE keys SET hash = x''", "UPDATE keys SET last_used_at = 'yesterday'"],
)  # fmt: skip
async def test_what_can_not_be_read_opens_no_door(file: Path, damage: str) -> None:
    keys = await keys_in(file)
    token, account = await made(keys)
    keys.begin(account.principal, HERE, 1, 1)
    await keys.flush()
    with sqlite3.connect(file) as other:
        other.execute(damage)
    other.close()
    with pytest.raises(AccessDenied):
        (await keys_in(file)).admit(token.encode())


async def test_the_same_name_is_given_once(file: Path) -> None:
    keys = await keys_in(file)
    _, first = await made(keys)
    with pytest.raises(BadRequest, match="already"):
        await made(keys)
    await keys.change(first.key.id, named("laptop"))  # its own
    _, second = await made(keys, name="second")
    with pytest.raises(BadRequest, match="already"):
        await keys.change(second.key.id, named("laptop"))


async def test_joules_are_expected_as_they_were_so_far(file: Path) -> None:
    keys = await keys_in(file)
    _, account = await made(keys, ("joules", "day", 100))
    first = keys.begin(account.principal, HERE, 1, 1)
    first.settle(NOW, tokens=2)
    first.settle_joules(NOW, 40.0)
    keys.begin(account.principal, HERE, 1, 1)
    assert account.reserved.joules == 40.0
    keys.begin(account.principal, HERE, 1, 1)
    with pytest.raises(LimitReached):
        keys.begin(account.principal, HERE, 1, 1)
