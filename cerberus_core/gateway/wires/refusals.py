"""What a good status with a bad body means."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cerberus_core.errors import UpstreamFailed
from cerberus_core.gateway.upstream_errors import message_of


def no_message(body: Mapping[str, Any]) -> UpstreamFailed:
    """The error of an answer without a message; in its own words if it has some."""
    error = body.get("error")
    try:
        words = message_of(msgspec.json.encode(error)) if error else None
    except RecursionError:
        words = None
    if words is None:
        return UpstreamFailed("The endpoint's answer holds no message")
    return UpstreamFailed(f"The endpoint answered: {words}")
