"""What a model will take, worked out from its metadata. Pure."""

from cerberus_core.values import Estimate

from .ggml import CACHE_TYPES, tensor_bytes
from .gguf import Header
from .library import Found

ENGINE_MIB = 150
"""The engine without a model: program, libraries, buffers."""
_MIB = 1 << 20


def estimate(
    found: Found,
    *,
    context: int,
    gpu_layers: int | None,
    cache_type_k: str | None = None,
    cache_type_v: str | None = None,
    draft: Found | None = None,
) -> Estimate:
    """`context`: tokens of all requests together. `draft` keeps a cache of its own, at 16 bits."""
    weights = found.size + found.projector_size
    cache = _cache(found, context, cache_type_k, cache_type_v)
    if draft is not None:
        weights += draft.size
        cache += _cache(draft, context, None, None)
    return Estimate(
        weights_mib=-(-weights // _MIB),
        cache_mib=-(-cache // _MIB),
        # The buffers to compute in grow with the model; a twentieth is near it.
        extra_mib=ENGINE_MIB + weights // 20 // _MIB,
        on_gpu=gpu_layers != 0,
    )


def _cache(found: Found, context: int, keys: str | None, values: str | None) -> int:
    header = found.header
    return cache_bytes(header, context, keys, values) if header is not None else 0


def cache_bytes(
    header: Header, context: int, keys: str | None = None, values: str | None = None
) -> int:
    """Keys and values of `context` tokens; 0 where the metadata don't say.

    `keys`, `values`: their types, 16-bit floats where none is named.
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
    count = layers * kv_heads * context
    return _bytes(keys, count * key) + _bytes(values, count * value)


def _bytes(kind: str | None, elements: int) -> int:
    return tensor_bytes(CACHE_TYPES.get(kind or "f16", CACHE_TYPES["f16"]), elements) or 0
