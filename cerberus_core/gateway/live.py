"""The requests that are being answered, and what watchers are told of them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from cerberus_core.platform import Clock
from cerberus_core.values import LiveRequest, Record

from .facts import Facts

FLOOD = 100
"""Events a second; beyond it watchers get one `reload` a second instead of each request."""


class Live:
    """One request in the making. Cheap: made for every request."""

    __slots__ = ("client", "facts", "id", "key_id", "model", "phase", "stream", "time")

    def __init__(
        self,
        id: str,
        time: datetime,
        model: str,
        client: str | None,
        stream: bool,
        facts: Facts,
        key_id: str | None = None,
    ) -> None:
        self.id = id
        self.time = time
        self.model = model
        self.client = client
        self.key_id = key_id
        self.stream = stream
        self.facts = facts
        self.phase = "waiting"

    def value(self) -> LiveRequest:
        phase = self.phase
        if phase == "prefill" and self.facts.first_at is not None:
            phase = "decode"
        return LiveRequest(
            id=self.id,
            time=self.time,
            model=self.model,
            client=self.client,
            stream=self.stream,
            phase=phase,
            pieces=self.facts.pieces,
        )


class LiveRequests:
    """All of them; publishes `request` and `record` events, and thins them out in a flood."""

    def __init__(self, publish: Callable[[str, Any], None], clock: Clock) -> None:
        self._publish = publish
        self._clock = clock
        self._requests: dict[str, Live] = {}
        self._count = 0
        """Events since the last tick."""
        self.total = 0

    def __len__(self) -> int:
        return len(self._requests)

    def values(self) -> list[LiveRequest]:
        """Newest first."""
        return [live.value() for live in reversed(self._requests.values())]

    def begin(self, live: Live) -> None:
        self.total += 1
        self._requests[live.id] = live
        if self._room():
            self._publish("request", live.value())

    def leave(self, live: Live) -> None:
        """It is answered; its record is still to come."""
        self._requests.pop(live.id, None)

    def end(self, live: Live, record: Record) -> None:
        self.leave(live)
        if self._room():
            self._publish("record", record)

    async def tick(self) -> None:
        """Once a second, tell how far the running ones are. Runs until cancelled."""
        while True:
            await self._clock.sleep(1.0)
            if self._count > FLOOD:
                self._publish("reload", {})
            self._count = 0
            for live in list(self._requests.values())[:FLOOD]:
                self._publish("request", live.value())

    def _room(self) -> bool:
        self._count += 1
        return self._count <= FLOOD
