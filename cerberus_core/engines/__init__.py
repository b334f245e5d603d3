"""The life of models.

Owns which models there are, which are loaded, who uses them and when they
leave. One task owns each model; everyone else asks it. It knows backends only
as interface objects, and no HTTP.
"""

from .lease import Lease
from .manager import Manager
from .policy import ModelPolicy, Policies, can_chat, policies_of

__all__ = ["Lease", "Manager", "ModelPolicy", "Policies", "can_chat", "policies_of"]
