"""Server-sent events, cut out of a byte stream. Pure.

Lines end at CR, LF or CRLF and nowhere else (a U+2028 inside a JSON string is
text), whatever way the network cut the bytes. Follows the WHATWG HTML
standard, "Server-sent events".
"""

MAX_EVENT = 8 << 20
"""Bytes of one event before the stream is given up as broken."""


class TooLong(Exception):
    """An event grew past `MAX_EVENT`."""


class Splitter:
    """Hands out whole events only, with LF line ends; holds a torn one back."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._drop_lf = False
        self._started = False

    def feed(self, chunk: bytes) -> bytes:
        """The whole events (each ending in a blank line) that `chunk` completes; may be empty."""
        if not self._started:
            chunk = self._strip_bom(chunk)
        if self._drop_lf and chunk:
            # The CR before it ended the line already.
            chunk = chunk[1:] if chunk[0] == 10 else chunk
            self._drop_lf = False
        if b"\r" in chunk:
            self._drop_lf = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pending = self._pending
        if not pending and chunk.endswith(b"\n\n"):
            return chunk
        search_from = max(0, len(pending) - 1)
        pending += chunk
        end = pending.rfind(b"\n\n", search_from)
        if end < 0:
            if len(pending) > MAX_EVENT:
                raise TooLong
            return b""
        events = bytes(memoryview(pending)[: end + 2])
        self._pending = pending[end + 2 :]
        return events

    def is_whole(self, chunk: bytes) -> bool:
        """`chunk` is whole events as it stands: `feed` would hand it back unchanged."""
        return (
            self._started
            and not self._pending
            and not self._drop_lf
            and chunk.endswith(b"\n\n")
            and b"\r" not in chunk
        )

    def _strip_bom(self, chunk: bytes) -> bytes:
        chunk = bytes(self._pending) + chunk
        self._pending.clear()
        bom = b"\xef\xbb\xbf"
        if len(chunk) < 3 and bom.startswith(chunk):
            self._pending += chunk
            return b""
        self._started = True
        return chunk.removeprefix(bom)


def blocks(events: bytes) -> list[bytes]:
    """The events of `Splitter.feed`, one by one, without their blank lines."""
    return [block for block in (part.strip(b"\n") for part in events.split(b"\n\n")) if block]


def data_of(block: bytes) -> bytes | None:
    """The data of one event, its `data:` lines joined by LF; None if it has none."""
    if block.startswith(b"data:") and b"\n" not in block:
        return block[6:] if block.startswith(b"data: ") else block[5:]
    lines = [
        line[6:] if line.startswith(b"data: ") else line[5:]
        for line in block.split(b"\n")
        if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None
