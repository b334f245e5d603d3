"""All gateway keys: known by their tokens, held to their limits, kept in the state file."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

import anyio
import msgspec
import structlog
from anyio.to_thread import run_sync as in_thread

from cerberus_core.errors import AccessDenied, NotFound, Unavailable
from cerberus_core.platform import Clock
from cerberus_core.store import Database
from cerberus_core.values import ModelInfo

from .account import Account, Reservation
from .key import Key, check
from .limits import Amounts, Ask
from .prices import Prices
from .principal import Principal
from .tokens import hash_matches, key_hash, key_id_of, make_key_token

WRITE_S = 1.0
"""What was spent is written down so long after it; a crash loses no more of it."""
AGAIN_S = 10.0
"""Between two tries to write to a file that can't be written."""

_LOAD = """
    SELECT k.id, k.hash, k.key, k.last_used_at, s.period, s.requests, s.tokens, s.money, s.joules
    FROM keys k LEFT JOIN key_spent s ON s.key = k.id ORDER BY k.id
"""
_BOOKS = "INSERT OR REPLACE INTO key_spent VALUES (?, ?, ?, ?, ?, ?)"
_LAST_USE = "UPDATE keys SET last_used_at = ? WHERE id = ?"
_log = structlog.get_logger("keys")


class Keys:
    """Asked by the guard (`admit`) and the gateway (`begin`); nothing of that waits.

    What can't be read opens no door: a key without its books is no key.
    """

    def __init__(
        self,
        database: Database | None,
        clock: Clock,
        prices: Prices | None = None,
    ) -> None:
        """Blocking where there is a database."""
        self.prices = prices or Prices()
        self.refusals: Counter[tuple[str, str]] = Counter()
        """Since the start, by a key's name ("" where it is unknown) and the error's code."""
        self._database = database
        self._clock = clock
        self._accounts: dict[str, Account] = {}
        self._removed: set[str] = set()
        """Revoked, and still in the file."""
        self._used: set[str] = set()
        """Whose last use, or books, aren't written down yet."""
        self._wake = anyio.Event()
        self._one_writer = anyio.Lock()
        if database is not None:
            self._load(database)

    # For the guard.

    def admit(self, token: bytes) -> Principal:
        """Whose token this is. Raises `AccessDenied`."""
        account = self._accounts.get(key_id_of(token))
        if account is None or not hash_matches(token, account.hash):
            raise AccessDenied(
                "This key is unknown: it was never made here, or was revoked",
                hint="`cerberus keys ls` shows those that there are.",
                code="unauthenticated",
            )
        self._check_time(account.key)
        return account.principal

    def turned_away(self, token: bytes, code: str) -> None:
        """Count that it was not admitted."""
        account = self._accounts.get(key_id_of(token))
        known = account is not None and hash_matches(token, account.hash)
        self.refusals[account.key.name if account and known else "", code] += 1

    # For the gateway.

    def account(self, principal: Principal) -> Account:
        """The key's, which may have been revoked since. Raises `AccessDenied`."""
        account = self._accounts.get(principal.key_id or "")
        if account is None:
            raise AccessDenied("This key was revoked", code="unauthenticated")
        return account

    def stores_prompts(self, principal: Principal) -> bool:
        """Whether what it asks may be kept."""
        account = self._accounts.get(principal.key_id or "")
        return account is not None and account.key.store_prompts

    def begin(
        self, principal: Principal, model: ModelInfo, prompt: int, output: int, *, anew: bool = True
    ) -> Reservation:
        """Reserve so many tokens for a request of a key.

        Raises `AccessDenied`, `Forbidden`, `LimitReached`.
        """
        account = self.account(principal)
        now = self._clock.now()
        ask = Ask(
            tokens=prompt + output,
            money=0.0 if model.local else self.prices.cost(model.id, prompt, output),
            joules=account.mean_joules() if model.local else 0.0,
            anew=anew,
        )
        answer = account.reserve(model, now, ask)
        if not isinstance(answer, Reservation):
            if anew:  # of a fallback that a key may not use nobody hears
                self.refusals[account.key.name, answer.code] += 1
            raise answer
        self.touched(principal)
        return answer

    def touched(self, principal: Principal) -> None:
        """Its books have changed."""
        self._used.add(principal.key_id or "")
        self._wake.set()

    # For the owner.

    def all(self) -> list[Account]:
        """The oldest first."""
        return sorted(self._accounts.values(), key=lambda one: (one.key.created_at, one.key.id))

    def find(self, key_id: str) -> Account:
        """Raises `NotFound`."""
        account = self._accounts.get(key_id)
        if account is None:
            raise NotFound(
                f"There is no key with the id {key_id!r}",
                hint="`cerberus keys ls` shows those that there are.",
            )
        return account

    async def add(self, wanted: Callable[[str, datetime], Key]) -> tuple[str, Account]:
        """(token, account) of a new key; `wanted` makes it from its id and the time.

        The token is told here and never again. Raises `BadRequest`, `Unavailable`.
        """
        key_id, token = make_key_token()
        async with self._one_writer:
            key = check(wanted(key_id, self._clock.now()), self._names())
            account = Account(key, key_hash(token.encode()))
            if not await self._write(
                "INSERT INTO keys VALUES (?, ?, ?, NULL)", [(key_id, account.hash, _text(key))]
            ):
                raise _unwritten("The key could not be made")
            self._accounts[key_id] = account
        return token, account

    async def change(self, key_id: str, wanted: Callable[[Key], Key]) -> Account:
        """What a key may from now on; its token, and what it has spent, stay.

        Requests that run are not cut off. Raises `NotFound`, `BadRequest`, `Unavailable`.
        """
        async with self._one_writer:
            account = self.find(key_id)
            before = account.key
            key = wanted(before)
            # An end that is over is no mistake of who changes something else.
            now = None if key.expires_at == before.expires_at else self._clock.now()
            key = check(key, self._names() - {before.name}, now)
            sql = "UPDATE keys SET key = ? WHERE id = ?"
            if not await self._write(sql, [(_text(key), key_id)]):
                raise _unwritten("The key stays as it was")
            account.change(key)
        return account

    async def remove(self, key_id: str) -> None:
        """Revoke it: from now on it opens nothing. Raises `NotFound`, `Unavailable`.

        Answers that run are not cut off.
        """
        self.find(key_id)
        del self._accounts[key_id]
        self._removed.add(key_id)
        self._wake.set()
        await self.flush()
        if key_id in self._removed:
            raise _unwritten("The key is revoked, but would be valid again after a restart")

    # Writing down.

    async def run(self) -> None:
        """Write what was spent from time to time. Runs until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            await self._clock.sleep(WRITE_S)
            while not await self.flush():
                await self._clock.sleep(AGAIN_S)

    async def flush(self) -> bool:
        """Write down what isn't yet; False if that could not be."""
        async with self._one_writer:
            forgotten = await self._forget_removed()
            return await self._write_books() and forgotten

    async def _forget_removed(self) -> bool:
        gone = [(key_id,) for key_id in self._removed]
        for sql in ("DELETE FROM key_spent WHERE key = ?", "DELETE FROM keys WHERE id = ?"):
            if gone and not await self._write(sql, gone):
                return False
        self._removed -= {key_id for (key_id,) in gone}
        return True

    async def _write_books(self) -> bool:
        used, self._used = self._used, set()
        accounts = [self._accounts[key_id] for key_id in used if key_id in self._accounts]
        if not accounts:
            return True
        now = self._clock.now()
        periods = [(account, set(account.unwritten)) for account in accounts]
        rows = [row for account in accounts for row in account.rows(now)]
        uses = [
            (account.last_used_at.isoformat(), account.key.id)
            for account in accounts
            if account.last_used_at is not None
        ]
        done = False
        try:
            done = await self._write(_BOOKS, rows) and await self._write(_LAST_USE, uses)
        finally:
            if not done:
                self._used |= used
                for account, names in periods:
                    account.unwritten |= names
        return done

    async def _write(self, sql: str, rows: Sequence[Sequence[object]]) -> bool:
        database = self._database
        return database is None or await in_thread(database.write, [(sql, rows)])

    def _load(self, database: Database) -> None:
        # One question for both: with the keys, but not what they have spent, limits would be open.
        for key_id, hash, text, last, period, *amounts in database.read(_LOAD):
            account = self._accounts.get(key_id)
            if account is None:
                try:
                    key = msgspec.json.decode(text, type=Key)
                    used = None if last is None else datetime.fromisoformat(last)
                except (msgspec.MsgspecError, ValueError) as error:
                    _log.warning("key_unreadable", id=key_id, error=str(error))
                    continue
                account = self._accounts[key_id] = Account(key, hash, last_used_at=used)
            if period is not None:
                requests, tokens, money, joules = amounts
                account.spent[period] = Amounts(
                    requests=requests, tokens=tokens, money=money, joules=joules
                )

    def _names(self) -> set[str]:
        return {account.key.name for account in self._accounts.values()}

    def _check_time(self, key: Key) -> None:
        if key.expires_at is not None and key.expired(self._clock.now()):
            raise AccessDenied(
                f"The key {key.name!r} expired on {key.expires_at:%Y-%m-%d %H:%M} UTC",
                hint="`cerberus keys add` makes a new one.",
                code="key_expired",
            )


def _text(key: Key) -> str:
    return msgspec.json.encode(key).decode()


def _unwritten(what: str) -> Unavailable:
    return Unavailable(
        f"{what}: the state file can't be written",
        hint="Check its disk; `cerberus status` says what is wrong with it.",
        code="state_file",
    )
