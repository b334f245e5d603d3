"""A ring of the last events that any number of readers follow at their own pace."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from cerberus_core.values import Event, new_id

RELOAD = "reload"
"""Type of the event that says: read the state anew. You missed some, or the settings changed."""


class Bus:
    """`publish` never waits; a reader that falls behind the ring is told to reload.

    Used from one event loop. Ids are `<boot>-<seq>`, so that an id of an
    earlier daemon is recognised and answered with a reload.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self.boot = new_id()
        self._ring: deque[Event] = deque(maxlen=capacity)
        self._next = 1
        self._readers: set[asyncio.Event] = set()
        self._closed = False

    def publish(self, type: str, data: Any) -> None:
        """Append an event; `data` is encoded only if somebody reads it."""
        self._ring.append(Event(seq=self._next, type=type, data=data))
        self._next += 1
        for wake in self._readers:
            wake.set()

    def close(self) -> None:
        """End every reader: the daemon is stopping."""
        self._closed = True
        for wake in self._readers:
            wake.set()

    def event_id(self, event: Event) -> str:
        return f"{self.boot}-{event.seq}"

    def follow(self, last_id: str | None = None) -> AsyncGenerator[Event]:
        """Events after `last_id`, then new ones until the bus is closed.

        Without an id it starts at the present. With one that the ring no
        longer holds (or of another boot), a `reload` event comes first. The
        present is the time of this call, not of the first read.
        """
        return self._follow(self._next if last_id is None else self._position_after(last_id))

    async def _follow(self, position: int | None) -> AsyncGenerator[Event]:
        wake = asyncio.Event()
        self._readers.add(wake)
        try:
            while not self._closed:
                if position is None or (self._ring and position < self._ring[0].seq):
                    position = self._next
                    yield Event(seq=position - 1, type=RELOAD, data={})
                for event in self._after(position):
                    position = event.seq + 1
                    yield event
                if position == self._next and not self._closed:
                    wake.clear()
                    await wake.wait()
        finally:
            self._readers.discard(wake)

    def _position_after(self, last_id: str) -> int | None:
        boot, _, seq = last_id.rpartition("-")
        if boot != self.boot or not (seq.isascii() and seq.isdigit()):
            return None
        position = int(seq[:20]) + 1
        return position if position <= self._next else None

    def _after(self, position: int) -> list[Event]:
        if not self._ring:
            return []
        skip = max(0, position - self._ring[0].seq)
        return [self._ring[i] for i in range(skip, len(self._ring))]
