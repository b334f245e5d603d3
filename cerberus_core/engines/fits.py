"""What a decision about a model says of it in a list. Pure."""

from cerberus_core.values import Fit

from .footprints import Expected
from .residency import Decision, Go, MakeRoom, Refuse, Wait


def told(expected: Expected, decision: Decision) -> Fit:
    """Of a model that is not in memory: whether it could be loaded now, and after what."""
    takes = sum(expected.footprint.values()) if expected.source != "unknown" else None
    match decision:
        case Go(missing) | MakeRoom(_, missing) | Wait(_, _, _, missing) if missing:
            return Fit(says="oversize", takes_mib=takes, short_mib=sum(missing.values()))
        case MakeRoom(leave):
            return Fit(says="after", takes_mib=takes, others=[model for model, _ in leave])
        case Wait(busy):
            return Fit(says="waits", takes_mib=takes, others=list(busy))
        case Refuse():
            short = sum(decision.missing.values()) or None
            return Fit(says="no", takes_mib=takes, short_mib=short, why=decision.why)
    return Fit(says="yes" if takes is not None else "unknown", takes_mib=takes)
