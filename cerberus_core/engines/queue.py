"""Who uses a model now and who waits for it: first come, first served."""

import asyncio
from collections import deque

from cerberus_core.errors import CerberusError, Overloaded


class Queue:
    """Counts requests in and out. One that is let in from the queue is counted by who let it in.

    So nobody overtakes, and a model can't be taken away between the word and
    the step. All in one step of the event loop each; there are no locks.
    """

    def __init__(self, *, limit: int | None = None, longest: int | None = None) -> None:
        """`limit` requests at the same time, `longest` that wait; None: without a limit."""
        self.limit = limit
        self.longest = longest
        self.in_flight = 0
        self.is_open = False
        """The model is there and takes requests."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def try_enter(self) -> bool:
        """Count a request in if it need not wait."""
        if not self.is_open or self._waiting or self._full():
            return False
        self.in_flight += 1
        return True

    def join(self) -> "asyncio.Future[None]":
        """A place at the end of the queue; done once its owner is counted in.

        Raises `Overloaded` where too many wait already.
        """
        if self.longest is not None and len(self._waiting) >= self.longest:
            raise Overloaded(
                f"{len(self._waiting)} requests wait for this model already",
                hint="Ask again a little later; the limit is `engines.queue_limit`.",
            )
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        return place

    async def wait(self, place: "asyncio.Future[None]") -> None:
        """Until counted in. Whoever gives up is forgotten, also in the last moment."""
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave()
            raise
        finally:
            if place in self._waiting:
                self._waiting.remove(place)

    def leave(self) -> None:
        """Count a request out, and the next one in."""
        self.in_flight -= 1
        self.let_in()

    def open(self) -> None:
        """From now on requests are taken."""
        self.is_open = True
        self.let_in()

    def close(self) -> None:
        """From now on all wait; those who are in go on."""
        self.is_open = False

    def let_in(self) -> None:
        """As many as there is room for."""
        while self.is_open and self._waiting and not self._full():
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)

    def retune(self, *, limit: int | None, longest: int | None) -> None:
        """Other limits from now on; who is in or waits stays so."""
        self.limit, self.longest = limit, longest
        self.let_in()

    def fail(self, error: CerberusError) -> None:
        """Send everybody who waits away with it."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(error)

    def _full(self) -> bool:
        return self.limit is not None and self.in_flight >= self.limit
