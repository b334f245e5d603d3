"""What a model will take, worked out from its metadata. Pure."""

from cerberus_core.values import Estimate

from .gguf import Header
from .library import Found

CACHE_BYTES = 2
"""Of one number in the cache of keys and values: 16-bit floats."""
ENGINE_MIB = 150
"""The engine without a model: program, libraries, buffers."""
_MIB = 1 << 20


def estimate(found: Found, *, context: int, gpu_layers: int | None) -> Estimate:
    """`context`: tokens of all requests together."""
    weights = found.size + found.projector_size
    cache = cache_bytes(found.header, context) if found.header is not None else 0
    return Estimate(
        weights_mib=-(-weights // _MIB),
        cache_mib=-(-cache // _MIB),
        # The buffers to compute in grow with the model; a twentieth is near it.
        extra_mib=ENGINE_MIB + weights // 20 // _MIB,
        on_gpu=gpu_layers != 0,
    )


def cache_bytes(header: Header, context: int) -> int:
    """Keys and values of `context` tokens; 0 where the metadata don't say.

    Where layers differ (the number of their heads is a list, which isn't read)
    all are taken to have as many as there are heads: too much rather than too little.
    """
    layers, heads = header.number("block_count"), header.number("attention.head_count")
    width = header.number("embedding_length")
    if not layers or not heads or not width:
        return 0
    kv_heads = header.number("attention.head_count_kv") or heads
    key = header.number("attention.key_length") or width // heads
    value = header.number("attention.value_length") or width // heads
    return layers * kv_heads * (key + value) * context * CACHE_BYTES
