"""Read what a GGUF file says about itself, and whether all of it is there.

The `gguf` library would build every token of the vocabulary as numpy objects:
seconds for each file, and a list of models must be quick. Here long arrays are
stepped over, and only the header is read (no memory map either: a file that is
cut while it is mapped kills the process). The format is described in ggml's
`docs/gguf.md`; versions 2 and 3, little-endian.
"""

import struct
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

import attrs

from .ggml import tensor_bytes

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
# A sparse file may claim any size: what no model has is refused before it is read,
# so that no file takes more than some seconds.
_MOST_PAIRS = 65_536
_MOST_TENSORS = 100_000
_MOST_ITEMS = 4_000_000
"""Strings inside arrays, in the whole header."""
_MOST_READ = 256 << 20
"""Bytes that are read and not stepped over."""
_SMALLEST_PAIR = 8 + 4 + 1
_SMALLEST_TENSOR = 8 + 4 + 4 + 8
_KEPT_STRING = 64 * 1024
_CHUNK = 1 << 20
_MIB = 1 << 20


class GGUFError(Exception):
    """The file is no usable GGUF; the message says why, in words for the person."""


@attrs.frozen(kw_only=True)
class Header:
    """`metadata` without its arrays, and sums over the tensors."""

    metadata: dict[str, Any]
    tensors: int
    parameters: int
    """Elements of all tensors in this file."""

    @property
    def architecture(self) -> str | None:
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else None

    def number(self, key: str) -> int | None:
        """A whole number, under `<architecture>.<key>`."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None


def read_header(path: Path) -> Header:
    """The header of `path`. Raises `GGUFError`, for unreadable files too."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            return _Reader(file, size).header()
    except OSError as error:
        raise GGUFError(f"can't be read: {error.strerror or error}") from error


class _Reader:
    """Steps through a header; every length is held against the bytes that are left."""

    def __init__(self, file: BufferedReader, size: int) -> None:
        self._file, self._size = file, size
        self._buffer, self._at, self._base = b"", 0, 0
        self._items = self._read = 0

    def header(self) -> Header:
        if self._size == 0:
            raise GGUFError("the file is empty")
        magic = self._take(min(4, self._size))
        if magic != b"GGUF":
            raise GGUFError("not a GGUF file (its first bytes are something else)")
        version = self._scalar("<I")
        if version not in (2, 3):
            raise GGUFError(f"GGUF version {version} is not supported (2 and 3 are)")
        tensors, pairs = self._scalar("<Q"), self._scalar("<Q")
        if pairs > _MOST_PAIRS or tensors > _MOST_TENSORS:
            raise GGUFError(f"its header claims {pairs} settings and {tensors} tensors")
        if tensors * _SMALLEST_TENSOR + pairs * _SMALLEST_PAIR > self._left():
            raise self._short()
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string()
            kind = self._scalar("<I")
            if kind == _ARRAY:
                self._skip_array()
            else:
                metadata[key] = self._value(kind)
        parameters, end = self._tensors(tensors)
        if tensors:
            self._check_extent(metadata, end)
        return Header(metadata=metadata, tensors=tensors, parameters=parameters)

    def _tensors(self, count: int) -> tuple[int, int]:
        parameters, end = 0, 0
        for _ in range(count):
            self._string()
            dimensions = self._scalar("<I")
            if dimensions > 8:
                raise GGUFError(f"damaged: a tensor with {dimensions} dimensions")
            elements = 1
            for _ in range(dimensions):
                elements *= self._scalar("<Q")
            kind, offset = self._scalar("<I"), self._scalar("<Q")
            parameters += elements
            # Of an unknown type only the start is known: a lower bound.
            end = max(end, offset + (tensor_bytes(kind, elements) or 0))
        return parameters, end

    def _check_extent(self, metadata: dict[str, Any], end: int) -> None:
        align = metadata.get("general.alignment", 32)
        if not isinstance(align, int) or not 0 < align <= _MIB:
            raise GGUFError(f"damaged: alignment {align!r}")
        needed = -(-(self._base + self._at) // align) * align + end
        if needed > self._size:
            raise GGUFError(
                f"incomplete: {self._size / _MIB:.1f} of {needed / _MIB:.1f} MiB are there"
                " (a download that was cut off?)"
            )

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        return self._scalar(self._format(kind))

    def _format(self, kind: int) -> str:
        try:
            return _SCALARS[kind]
        except KeyError:
            raise GGUFError(f"damaged: value of unknown type {kind}") from None

    def _skip_array(self, depth: int = 0) -> None:
        kind, count = self._scalar("<I"), self._scalar("<Q")
        if kind == _STRING:
            self._skip_strings(count)
        elif kind == _ARRAY:
            if depth > 4 or count * 12 > self._left():
                raise GGUFError("damaged: arrays nested too deep or too long")
            self._count(10 * count)  # each takes as long as ten strings
            for _ in range(count):
                self._skip_array(depth + 1)
        else:
            self._skip(count * struct.calcsize(self._format(kind)))

    def _skip_strings(self, count: int) -> None:
        # The one hot loop: a vocabulary has some 250,000 of them.
        if count * 8 > self._left():
            raise self._short()
        self._count(count)
        unpack: Callable[[bytes, int], tuple[int]] = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if len(self._buffer) - self._at < 8:
                self._fill(8)
            end = self._at + 8 + unpack(self._buffer, self._at)[0]
            if end <= len(self._buffer):
                self._at = end
            else:
                self._skip(end - self._at)

    def _count(self, items: int) -> None:
        self._items += items
        if self._items > _MOST_ITEMS:
            raise GGUFError(f"its header claims lists of more than {_MOST_ITEMS} items")

    def _string(self) -> str:
        length = self._scalar("<Q")
        if length > self._left():
            raise self._short()
        kept = self._take(min(length, _KEPT_STRING))
        self._skip(length - len(kept))
        return kept.decode(errors="replace")

    def _scalar(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _take(self, count: int) -> bytes:
        if len(self._buffer) - self._at < count:
            self._fill(count)
        taken = self._buffer[self._at : self._at + count]
        self._at += count
        return taken

    def _skip(self, count: int) -> None:
        if count > self._left():
            raise self._short()
        if self._at + count <= len(self._buffer):
            self._at += count
            return
        self._base += self._at + count
        self._file.seek(self._base)
        self._buffer, self._at = b"", 0

    def _fill(self, count: int) -> None:
        kept = self._buffer[self._at :]
        self._base += self._at
        more = self._file.read(max(count, _CHUNK))
        self._read += len(more)
        if self._read > _MOST_READ:
            raise GGUFError(f"its header is longer than {_MOST_READ // _MIB} MiB")
        self._buffer, self._at = kept + more, 0
        if len(self._buffer) < count:
            raise self._short()

    def _left(self) -> int:
        return self._size - self._base - self._at

    def _short(self) -> GGUFError:
        return GGUFError(
            f"incomplete: the file ends inside its header, after {self._size} bytes"
            " (a download that was cut off?)"
        )
