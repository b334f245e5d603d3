"""Which model a request goes to when the one it named can't answer. Pure."""

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


def too_slow(model: ModelInfo | None, left_s: float) -> str | None:
    """Why waiting for the model would take longer than `left_s`; None: it may come in time."""
    if model is None or model.state != "loading" or model.eta_s is None:
        return None
    if model.eta_s <= left_s:
        return None
    return f"{model.id} would take about {model.eta_s:.0f} s to load"


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
