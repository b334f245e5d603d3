"""The gateway's settings."""

import attrs


@attrs.frozen(kw_only=True)
class Options:
    """Times in seconds; what each means stands in `config.schema.GatewayConfig`."""

    hold_s: float = 5.0
    keepalive_s: float = 10.0
    silence_s: float = 300.0
    body_limit: int = 64 << 20
    """Bytes of a request body."""
