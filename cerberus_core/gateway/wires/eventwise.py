"""A stream that is told event by event, until its end or its error. Pure."""

from cerberus_core.gateway import sse
from cerberus_core.gateway.stream import UpstreamError


class Eventwise:
    """Splits bytes into events for `_take`, which tells what the client gets for each."""

    def __init__(self) -> None:
        self._splitter = sse.Splitter()
        self.done = False
        """The end was told: nothing after it matters."""
        self.before_error = b""

    def feed(self, chunk: bytes) -> bytes:
        """What to send on for `chunk`. Raises `UpstreamError`, `sse.TooLong`.

        On an error, whatever stood before it in the chunk is in `self.before_error`.
        """
        events = self._splitter.feed(chunk)
        return self._each(events) if events else b""

    def _each(self, events: bytes) -> bytes:
        out: list[bytes] = []
        try:
            for block in sse.blocks(events):
                if self.done:
                    break
                out.append(self._take(block))
        except UpstreamError:
            self.before_error = b"".join(out)
            raise
        return b"".join(out)

    def _take(self, block: bytes) -> bytes:
        """What the client gets for one event. Raises `UpstreamError`."""
        raise NotImplementedError
