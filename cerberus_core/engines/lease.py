"""The right to use a loaded model for one request."""

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

import attrs

from cerberus_core.errors import CerberusError
from cerberus_core.values import Endpoint, ModelInfo

if TYPE_CHECKING:
    from .life import Life


@attrs.frozen(kw_only=True)
class Waited:
    """What a request waited for before its turn came, in seconds."""

    queue_s: float = 0.0
    """For other requests, or for models that had to leave."""
    load_s: float | None = None
    """For the load itself; None where there was none."""
    evicted: tuple[str, ...] = ()
    """The models that left for it."""


@attrs.frozen(kw_only=True)
class Delay:
    """What a request that comes now would wait for, in seconds, as far as that is known."""

    load_s: float | None = None
    """None: it need not be loaded, or nobody knows yet how long that takes."""
    queue_s: float = 0.0


@attrs.define(kw_only=True, eq=False)
class Lease:
    """While it is held, the model is not unloaded. Give it back on every path."""

    endpoint: Endpoint
    model: ModelInfo
    waited: Waited | None
    """None when the model was there, and free."""
    hold_s: float = 0.0
    """Afterwards the model is kept for its session's next turn for so long."""
    _life: "Life" = attrs.field(repr=False)
    _held: bool = attrs.field(default=True, init=False)

    @property
    def cards(self) -> Set[str] | None:
        """The GPUs that the model sits on; None where that is unknown, or there is none."""
        return self._life.cards

    @property
    def parameters(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """What the settings say of its requests: (where they don't name it, in any case)."""
        policy = self._life.policy
        return policy.defaults, policy.forced

    @property
    def text_calls(self) -> bool:
        """Whether the model writes its tool calls into its text."""
        return self._life.policy.text_calls

    def release(self) -> None:
        """Give it back; harmless twice."""
        if self._held:
            self._held = False
            self._life.leave(self.hold_s)

    def explain(self, status: int, body: bytes) -> CerberusError | None:
        """What a refusal by the endpoint means, where its backend knows better."""
        return self._life.explain(status, body)

    async def lost_reason(self, wait_s: float = 0.5) -> str | None:
        """Why the engine of this lease has gone, or None if it still runs.

        Its connection breaks a moment before its end is noticed, so this waits
        up to `wait_s` seconds for the news.
        """
        return await self._life.lost_reason(self.endpoint, wait_s)
