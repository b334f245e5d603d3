"""Compressed answers. We ask for none, and some endpoints compress all the same."""

import zlib

from cerberus_core.errors import UpstreamFailed

STEP = 1 << 20
"""Bytes that are unpacked in one go."""
MAX_AT_ONCE = 16 << 20
"""Bytes that one piece from the network may unpack to; text that does is a bomb."""
MAX_OUT = 256 << 20
"""Bytes that one answer may unpack to."""
MAX_MEMBERS = 1000
"""Packed files that may stand one after the other in an answer; gzip allows that."""


class Decoder:
    """Unpacks `content-encoding: gzip | deflate` piece by piece."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        self._inflate = _inflater(self._encoding)
        self._total = 0
        self._members = 1

    def feed(self, data: bytes) -> bytes:
        """Plain bytes. Raises `UpstreamFailed` on garbage or a bomb."""
        if self._inflate is None or not data:
            return data
        out: list[bytes] = []
        try:
            size = self._unpack(data, out)
        except zlib.error as error:
            raise UpstreamFailed(f"The endpoint's compressed answer is broken: {error}") from None
        self._total += size
        if size > MAX_AT_ONCE or self._total > MAX_OUT:
            raise UpstreamFailed(
                f"The endpoint's compressed answer unpacks to more than {_most(size)} MiB"
            )
        return out[0] if len(out) == 1 else b"".join(out)

    def _unpack(self, data: bytes, out: list[bytes]) -> int:
        """Append plain bytes to `out` until a limit is passed; how many."""
        assert self._inflate is not None
        size = 0
        more = True
        while more and size <= min(MAX_AT_ONCE, MAX_OUT - self._total):
            if self._inflate.eof:
                data = data.lstrip(b"\0")  # files may be padded
                if not data or self._encoding == "deflate":
                    break
                self._members += 1
                if self._members > MAX_MEMBERS:
                    raise zlib.error("it is in too many parts")
                self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
            plain = self._inflate.decompress(data, STEP)
            out.append(plain)
            size += len(plain)
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            more = bool(data) or len(plain) == STEP
        return size


def _most(size: int) -> int:
    return (MAX_AT_ONCE if size > MAX_AT_ONCE else MAX_OUT) >> 20


def _inflater(encoding: str) -> "zlib._Decompress | None":
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip"):
        return zlib.decompressobj(zlib.MAX_WBITS | 16)
    if encoding == "deflate":
        return zlib.decompressobj()
    raise UpstreamFailed(
        f"The endpoint answered in the encoding {encoding!r}, which nobody asked for",
        hint="Turn compression off at the endpoint or at the proxy before it.",
    )


PLAIN = Decoder("")
"""For an answer that isn't compressed: nearly all of them."""
