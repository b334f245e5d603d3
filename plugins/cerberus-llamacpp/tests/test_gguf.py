"""The header reader, on files made to measure and on hostile bytes."""

import contextlib
import struct
import time
from pathlib import Path

import pytest
from cerberus_llamacpp.gguf import GGUFError, read_header
from cerberus_llamacpp.testing import TINY, copy_gguf, write_gguf
from hypothesis import given, settings
from hypothesis import strategies as st


def test_reads_what_a_file_says_about_itself(tmp_path: Path) -> None:
    header = read_header(write_gguf(tmp_path / "a.gguf"))
    assert header.architecture == "llama"
    assert header.number("context_length") == 2048
    assert (header.tensors, header.parameters) == (1, 64 * 32)
    assert "tokenizer.ggml.tokens" not in header.metadata


def test_every_missing_tail_is_named_as_incomplete(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    for size in range(5, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(GGUFError, match="incomplete"):
            read_header(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"<!doctype html><title>Sign in</title>", "not a GGUF file"),
        (b"GG", "not a GGUF file"),
        (struct.pack("<4sIQQ", b"GGUF", 1, 0, 0), "version 1 is not supported"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 2**63, 2**63), "header claims"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 100, 100), "incomplete"),
        (struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 2**60) + bytes(64), "incomplete"),
    ],
)
def test_says_why_a_file_is_no_model(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(GGUFError, match=reason):
        read_header(path)


def test_an_unreadable_file_is_a_reason_too(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match="can't be read"):
        read_header(tmp_path / "nowhere.gguf")


def test_an_unknown_tensor_type_is_not_guessed(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "new.gguf", tensors=[("w", (64, 64), 4000)])
    assert read_header(path).parameters == 64 * 64


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_hostile_bytes_raise_nothing_but_the_typed_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.gguf"
    content = bytearray(write_gguf(path).read_bytes())
    if data.draw(st.booleans(), label="only noise"):
        noise = data.draw(st.binary(max_size=300))
        content = bytearray(struct.pack("<4sI", b"GGUF", 3) + noise)
    else:
        for _ in range(data.draw(st.integers(1, 8), label="edits")):
            at = data.draw(st.integers(4, len(content) - 9))
            value = data.draw(st.sampled_from([0, 1, 9, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
            width = data.draw(st.sampled_from([1, 4, 8]))
            content[at : at + width] = (value % 256**width).to_bytes(width, "little")
    path.write_bytes(content)
    with contextlib.suppress(GGUFError):
        read_header(path)


def test_a_vocabulary_of_a_quarter_million_takes_no_noticeable_time(tmp_path: Path) -> None:
    tokens = [f"token {number}" for number in range(250_000)]
    path = write_gguf(tmp_path / "big.gguf", {**TINY, "tokenizer.ggml.tokens": tokens})
    began = time.process_time()
    assert read_header(path).architecture == "llama"
    assert time.process_time() - began < 1.0


def claims(pairs: int, tensors: int = 0) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", 3, tensors, pairs)


KEY = struct.pack("<Q", 1) + b"k"
EMPTY_STRINGS = KEY + struct.pack("<IIQ", 9, 8, 1_000_000) + bytes(8_000_000)
EMPTY_ARRAYS = KEY + struct.pack("<IIQ", 9, 9, 700_000) + struct.pack("<IQ", 0, 0) * 700_000


@pytest.mark.parametrize(
    ("start", "part", "parts", "reason"),
    [
        (claims(pairs=5), EMPTY_STRINGS, 5, "more than 4000000 items"),
        (claims(pairs=1), EMPTY_ARRAYS, 1, "more than 4000000 items"),
        (claims(pairs=0, tensors=100_001), bytes(24), 100_001, "100001 tensors"),
        (claims(pairs=5000), KEY + struct.pack("<IQ", 8, 65536) + bytes(65536), 5000, "256 MiB"),
    ],
    ids=["strings", "arrays", "tensors", "bytes"],
)
def test_a_header_that_would_take_for_ever_is_refused(
    tmp_path: Path, start: bytes, part: bytes, parts: int, reason: str
) -> None:
    path = tmp_path / "endless.gguf"
    with path.open("wb") as file:
        file.write(start)
        for _ in range(parts):
            file.write(part)
    began = time.process_time()
    with pytest.raises(GGUFError, match=reason):
        read_header(path)
    assert time.process_time() - began < 5.0


def test_the_starter_model_reads_as_what_it_is(starter_model: Path, tmp_path: Path) -> None:
    header = read_header(starter_model)
    assert header.architecture == "llama"
    assert header.number("context_length") == 8192
    copy = copy_gguf(starter_model, tmp_path / "copy.gguf", {"llama.pooling_type": 1})
    assert read_header(copy).number("pooling_type") == 1
