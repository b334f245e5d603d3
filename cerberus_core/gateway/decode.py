"""Compressed answers. We ask for none, and some endpoints compress all the same."""

import zlib

from cerberus_core.errors import UpstreamFailed

MAX_OUT = 256 << 20
"""Bytes that one answer may unpack to."""


class Decoder:
    """Unpacks `content-encoding: gzip | deflate` piece by piece."""

    def __init__(self, encoding: str) -> None:
        self._inflate = _inflater(encoding.strip().lower())
        self._total = 0

    def feed(self, data: bytes) -> bytes:
        """Plain bytes. Raises `UpstreamFailed` on garbage or a bomb."""
        if self._inflate is None or not data:
            return data
        try:
            out = self._inflate.decompress(data, MAX_OUT - self._total + 1)
        except zlib.error as error:
            raise UpstreamFailed(f"The endpoint's compressed answer is broken: {error}") from None
        self._total += len(out)
        if self._total > MAX_OUT:
            raise UpstreamFailed("The endpoint's answer unpacks to more than 256 MiB")
        return out


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
