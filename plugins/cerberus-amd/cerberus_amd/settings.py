"""`[plugins.amd]`."""

import attrs


@attrs.frozen(kw_only=True)
class Settings:
    sysfs: str = "/sys"
    """Where the kernel shows its devices."""
    amdsmi: bool = True
    """Ask AMD's library for what the kernel doesn't show: energy counters and processes."""
