"""What a gateway key may, for one request: reserved before it begins, settled with its record."""

from cerberus_core.access import OWNER, Keys, Principal, Reservation
from cerberus_core.engines import Manager
from cerberus_core.errors import ModelNotFound, NotFound
from cerberus_core.platform import Clock
from cerberus_core.values import ModelInfo, Record

from .expect import Expected, expected, taken
from .request import Parsed


class Admission:
    """`enter` for each model that is to answer, `end` on every path."""

    def __init__(
        self, keys: Keys, principal: Principal, manager: Manager, parsed: Parsed, clock: Clock
    ) -> None:
        self._keys = keys
        self._principal = principal
        self._manager = manager
        self._parsed = parsed
        self._clock = clock
        self._reservation: Reservation | None = None
        self._expected = Expected(0, 0)
        self._ended = False

    async def enter(self, name: str) -> None:
        """Raises `Forbidden`, `LimitReached`, `AccessDenied`, `ModelNotFound`, `Unavailable`."""
        model = self._manager.listed(name) or await known_to(self._principal, self._manager, name)
        again = self._reservation is not None
        if self._reservation is not None:  # of a model that gave way to this one
            now = self._clock.now()
            self._reservation.settle(now)
            self._reservation.settle_joules(now, 0.0)
        self._expected = expected(self._parsed.path, self._parsed.fields, model.ctx)
        prompt, output = self._expected
        self._reservation = self._keys.begin(self._principal, model, prompt, output, anew=not again)

    def end(self, record: Record, *, metered: bool) -> None:
        """Book what it took. `metered`: its joules are told later."""
        if self._reservation is None:
            return
        prompt, completion = taken(record, self._expected)
        money = None
        if record.local is False:
            prices = self._keys.prices
            money = prices.cost(record.model, prompt, completion, record.cached_tokens)
        self._reservation.settle(self._clock.now(), tokens=prompt + completion, money=money or 0.0)
        self._keys.touched(self._principal)
        if not metered:
            self.metered(None)

    def metered(self, joules: float | None) -> None:
        """What nobody measured is not counted."""
        if self._reservation is not None:
            self._reservation.settle_joules(self._clock.now(), joules or 0.0)
            self._keys.touched(self._principal)


async def known_to(principal: Principal, manager: Manager, name: str) -> ModelInfo:
    """The model of that name; who may not see all models is told of no others."""
    try:
        return await manager.model(name)
    except ModelNotFound:
        if principal is OWNER:
            raise
        raise unknown_to_key(name) from None


def unknown_to_key(name: str) -> NotFound:
    return ModelNotFound(
        f"There is no model named {name!r} for this key", hint="GET /v1/models lists those it has."
    )
