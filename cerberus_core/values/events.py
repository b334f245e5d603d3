"""Something that happened, for whoever is watching."""

from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Event:
    """`seq` grows by one for each event of a daemon's life; `data` is JSON-able."""

    seq: int
    type: str
    data: Any
