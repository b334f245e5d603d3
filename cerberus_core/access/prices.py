"""What a cloud's tokens cost, by the table in the settings. Pure."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from cerberus_core.config import ModelPrice

MILLION = 1_000_000
_NOTHING_KNOWN = ModelPrice()


class Prices:
    """The table: an exact id wins, then the longest pattern that matches."""

    def __init__(self, table: Mapping[str, ModelPrice] | None = None) -> None:
        self._table = dict(table or {})
        self._known: dict[str, ModelPrice] = {}

    def __bool__(self) -> bool:
        return bool(self._table)

    def of(self, model_id: str) -> ModelPrice:
        """All None where the table doesn't say."""
        price = self._known.get(model_id)
        if price is None:
            price = self._known[model_id] = self._look_up(model_id)
        return price

    def cost(
        self, model_id: str, prompt: int | None, completion: int | None, cached: int | None = None
    ) -> float | None:
        """Money for so many tokens; `cached` are among those of the prompt. None: unknown."""
        if prompt is None:
            return None
        price = self.of(model_id)
        cached = min(cached or 0, prompt)
        cached_price = price.input if price.cached is None else price.cached
        parts = (
            (prompt - cached, price.input),
            (cached, cached_price),
            (completion or 0, price.output),
        )
        money = 0.0
        for tokens, per_million in parts:
            if tokens and per_million is None:
                return None
            money += tokens * (per_million or 0.0) / MILLION
        return money

    def _look_up(self, model_id: str) -> ModelPrice:
        exact = self._table.get(model_id)
        if exact is not None:
            return exact
        fitting = [pattern for pattern in self._table if fnmatchcase(model_id, pattern)]
        return self._table[max(fitting, key=len)] if fitting else _NOTHING_KNOWN
