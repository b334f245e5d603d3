"""One endpoint that speaks the OpenAI wire to any model.

Owns the `/v1` paths: the relay (the hot path), its meter, and the connections
to engines and endpoints. It asks `engines/` for a model and hands each
request's record to `usage/`; it knows no plugin and no admin API.
"""

from .app import Gateway
from .options import Options

__all__ = ["Gateway", "Options"]
