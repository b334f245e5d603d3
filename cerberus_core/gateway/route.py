"""Which model a request goes to when the one it named can't answer. Pure."""

from cerberus_core.engines import Delay
from cerberus_core.errors import (
    CerberusError,
    EngineLost,
    LimitReached,
    LoadFailed,
    ModelNotFound,
    Overloaded,
    Unavailable,
    UpstreamFailed,
)
from cerberus_core.values import ModelInfo

from .upstream_errors import KeptStatus

_MAY_PASS = frozenset({408, 409, 425, 429})
"""Refusals below 500 that say nothing against the request itself."""


class TooSlow(Unavailable):
    """Loading, or the turn in the queue, would take longer than the client's patience."""

    code = "too_slow"


def gives_way(error: CerberusError) -> bool:
    """Whether another model may answer where this error came."""
    if isinstance(error, KeptStatus):
        return error.status >= 500 or error.status in _MAY_PASS or error.overflow
    if error.code in ("stopping", "answer_cut_off"):
        return False
    kinds = (
        Unavailable,
        Overloaded,
        LoadFailed,
        LimitReached,
        EngineLost,
        UpstreamFailed,
        ModelNotFound,
    )
    return isinstance(error, kinds) or error.code == "wire_unsupported"


def too_slow(model_id: str, delay: Delay, left_s: float) -> str | None:
    """Why waiting for the model would take longer than `left_s`; None: it may come in time."""
    load_s = delay.load_s or 0.0
    if load_s + delay.queue_s <= left_s:
        return None
    words = [f"{load_s:.0f} s to load"] if load_s else []
    if delay.queue_s:
        words.append(f"{delay.queue_s:.0f} s until its turn comes")
    return f"{model_id} would take about {' and '.join(words)}"


def waits(model: ModelInfo | None) -> str:
    """What a stream's client may be told while it waits for a model."""
    if model is None or model.state != "loading":
        return "waiting"
    if model.waits_for:
        return f"waiting for {', '.join(model.waits_for)}"
    words = [f"{model.progress:.0%}"] if model.progress is not None else []
    if model.eta_s:
        words.append(f"about {model.eta_s:.0f} s left")
    return f"loading {', '.join(words)}" if words else "loading"
