"""Who asks."""

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Principal:
    """The actor of a request. `name` is shown in records; it is never a secret."""

    kind: Literal["user", "session", "host", "service"]
    name: str
    via: Literal["token", "cookie"]
