"""What llama.cpp says in words of its own, or with a 500, though the request is at fault. Pure."""

import json
import re

from cerberus_core.errors import BadRequest
from cerberus_core.values import ModelInfo

_SIZES = re.compile(r"request \((\d+) tokens\) .* size \((\d+) tokens\)")


def explain(model: ModelInfo, body: bytes) -> BadRequest | None:
    """What the body of a refusal means, and what to do; None if there is nothing to add."""
    message = _message(body)
    if "exceeds the available context size" in message:
        sizes = _SIZES.search(message)
        return BadRequest(
            f"{model.id}: {message.removesuffix(', try increasing it')}",
            hint=_longer(model, asked=int(sizes[1]), has=int(sizes[2]))
            if sizes
            else f'Ask for less, or set more: `models."{model.id}".context`.',
            code="context_length_exceeded",
        )
    kind = next((kind for kind in ("image", "audio") if f"{kind} input is not" in message), None)
    if kind is None:
        return None
    hint = "Choose a model whose capabilities hold `vision`: `cerberus models ls`."
    return BadRequest(
        f"{model.id} takes no {kind} input",
        hint=hint if kind == "image" else "Send text alone.",
        code="unsupported_input",
    )


def _longer(model: ModelInfo, *, asked: int, has: int) -> str:
    """What to set so that a request of that size fits, with room for its answer."""
    wanted = 1 << (asked + asked // 4).bit_length()
    if model.ctx is not None and model.ctx <= has:
        return f"It was trained for {model.ctx} tokens: ask for less."
    wanted = min(wanted, model.ctx or wanted)
    key = f'models."{model.id}".context'
    return f"Ask for less, or `cerberus config set '{key}' {wanted}` and start the daemon anew."


def _message(body: bytes) -> str:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return message if isinstance(message, str) else ""
