"""Estimates against worked examples."""

from pathlib import Path
from typing import Any

import cerberus_llamacpp
import pytest
from cerberus_llamacpp.estimate import ENGINE_MIB, cache_bytes, estimate
from cerberus_llamacpp.gguf import Header
from cerberus_llamacpp.library import Found, Library
from cerberus_llamacpp.testing import Setup, write_gguf

from cerberus_core.values import LoadPlan


def header(**numbers: Any) -> Header:
    metadata = {"general.architecture": "llama"}
    metadata |= {f"llama.{key.replace('__', '.')}": value for key, value in numbers.items()}
    return Header(metadata=metadata, tensors=1, parameters=1)


LLAMA_8B = {
    "block_count": 32,
    "attention__head_count": 32,
    "attention__head_count_kv": 8,
    "embedding_length": 4096,
}


def test_the_cache_of_a_known_model() -> None:
    # Llama 3 8B: 128 KiB for each token.
    assert cache_bytes(header(**LLAMA_8B), 1) == 128 << 10
    assert cache_bytes(header(**LLAMA_8B), 8192) == 1 << 30


def test_heads_of_another_width_than_the_model_says() -> None:
    wide = header(**LLAMA_8B, attention__key_length=256, attention__value_length=64)
    assert cache_bytes(wide, 1) == 32 * 8 * (256 + 64) * 2


def test_metadata_that_say_nothing_or_nonsense_are_no_error() -> None:
    assert cache_bytes(header(), 4096) == 0
    assert cache_bytes(header(**{**LLAMA_8B, "attention__head_count": 0}), 4096) == 0


def test_a_cache_of_fewer_bits_and_of_a_model_that_guesses_ahead() -> None:
    plain = cache_bytes(header(**LLAMA_8B), 8192)
    # 32 numbers take 64 bytes at 16 bits, 34 as q8_0, 18 as q4_0.
    assert cache_bytes(header(**LLAMA_8B), 8192, "q8_0", "q8_0") == plain * 34 // 64
    assert cache_bytes(header(**LLAMA_8B), 8192, "f32", "q4_0") == plain + plain * 18 // 128
    big, small = (
        Found(name="m", shards=(Path("m.gguf"),), size=mib << 20, header=header(**LLAMA_8B))
        for mib in (4000, 200)
    )
    told = estimate(big, context=8192, gpu_layers=None, cache_type_k="q8_0", draft=small)
    assert (told.weights_mib, told.cache_mib) == (4200, 512 * 34 // 64 + 512 + 1024)


def test_an_estimate_counts_the_projector_and_the_engine() -> None:
    found = Found(
        name="m",
        shards=(Path("m.gguf"),),
        size=4000 << 20,
        header=header(**LLAMA_8B),
        projector_size=600 << 20,
    )
    told = estimate(found, context=8192, gpu_layers=None)
    assert (told.weights_mib, told.cache_mib) == (4600, 1024)
    assert told.extra_mib == ENGINE_MIB + 230
    assert told.on_gpu
    assert not estimate(found, context=1, gpu_layers=0).on_gpu


@pytest.mark.anyio
async def test_estimates_of_a_whole_list_read_no_folder_again(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        write_gguf(setup.models_dir / f"m{number}.gguf")
    [backend] = cerberus_llamacpp.cerberus_model_backends(setup)
    models = await backend.list()
    monkeypatch.setattr(Library, "scan", None)
    for model in models:
        told = await backend.guess(model, LoadPlan())
        assert told is not None
        assert told.weights_mib == 1
    await backend.aclose()
