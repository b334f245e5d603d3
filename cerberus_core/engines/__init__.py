"""The life of models.

Owns which models there are, which are loaded, who uses them and when they
leave. One task owns each model; everyone else asks it. It knows backends only
as interface objects, and no HTTP.
"""

from .footprints import Footprints
from .lease import Delay, Lease, Waited
from .manager import Manager
from .policy import ModelPolicy, Policies, can_chat, policies_of
from .pools import Pools
from .room import RoomRules

__all__ = [
    "Delay",
    "Footprints",
    "Lease",
    "Manager",
    "ModelPolicy",
    "Policies",
    "Pools",
    "RoomRules",
    "Waited",
    "can_chat",
    "policies_of",
]
