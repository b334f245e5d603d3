"""`[plugins.rapl]`."""

import attrs


@attrs.frozen(kw_only=True)
class Settings:
    root: str = "/sys/class/powercap"
    """Where the kernel shows its power zones."""
