"""For tests: the starter model, GGUF files made to measure, a `PluginSetup`."""

import asyncio
import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from cerberus_core.platform import FileLock

from .ggml import tensor_bytes

T = TypeVar("T")

TINY: Mapping[str, Any] = {
    "general.architecture": "llama",
    "general.type": "model",
    "general.file_type": 3,
    "general.size_label": "1M",
    "llama.context_length": 2048,
    "llama.embedding_length": 64,
    "tokenizer.ggml.tokens": ["<s>", "a", "b" * 300],
}
"""Metadata of a small chat model."""


@attrs.frozen
class Setup:
    """A `PluginSetup` over one folder; `values` are the settings."""

    root: Path
    values: Mapping[str, Any] = attrs.field(factory=dict)
    name: str = "llamacpp"

    @property
    def data_dir(self) -> Path:
        return self._folder("data")

    @property
    def models_dir(self) -> Path:
        return self._folder("models")

    @property
    def logs_dir(self) -> Path:
        return self._folder("logs")

    def settings(self, cls: type[T]) -> T:
        return cls(**self.values)

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def starter_file(folder: Path) -> Path:
    """The starter model's file: CERBERUS_TEST_MODEL, else pulled once into `folder`."""
    given = os.environ.get("CERBERUS_TEST_MODEL")
    if given:
        return Path(given)
    from .pull.starter import pull_starter

    with FileLock(folder / ".lock"):
        return asyncio.run(pull_starter(folder, lambda progress: None))


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any] = TINY,
    tensors: Sequence[tuple[str, Sequence[int], int]] = (("token_embd.weight", (64, 32), 2),),
    *,
    cut: int = 0,
) -> Path:
    """A GGUF with tensors of zeros (name, dimensions, type); `cut` bytes short."""
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        header += _text(key) + _value(value)
    offset = 0
    for name, dimensions, kind in tensors:
        header += _text(name) + struct.pack("<I", len(dimensions))
        elements = 1
        for dimension in dimensions:
            header += struct.pack("<Q", dimension)
            elements *= dimension
        header += struct.pack("<IQ", kind, offset)
        offset = _aligned(offset + (tensor_bytes(kind, elements) or 0))
    whole = header.ljust(_aligned(len(header)), b"\0") + bytes(offset)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(whole[: len(whole) - cut])
    return path


def copy_gguf(source: Path, target: Path, metadata: Mapping[str, Any]) -> Path:
    """A copy of a real GGUF with more metadata in front of its own."""
    pairs = b"".join([_text(key) + _value(value) for key, value in metadata.items()])
    filler = _text("test.filler") + struct.pack("<IQ", 8, 0)
    # The data moves by a whole number of alignments, so that no padding changes.
    room = _aligned(len(pairs) + len(filler))
    count = room - len(pairs) - len(filler)
    filler = _text("test.filler") + struct.pack("<IQ", 8, count) + b"." * count
    with source.open("rb") as read, target.open("wb") as write:
        magic, version, tensors, own = struct.unpack("<4sIQQ", read.read(24))
        write.write(struct.pack("<4sIQQ", magic, version, tensors, own + len(metadata) + 1))
        write.write(pairs + filler)
        shutil.copyfileobj(read, write, 1 << 20)
    return target


def _aligned(size: int) -> int:
    return -(-size // 32) * 32


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    items = b"".join([_text(item) for item in value])
    return struct.pack("<IIQ", 9, 8, len(value)) + items
