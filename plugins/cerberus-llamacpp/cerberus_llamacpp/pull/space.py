"""Is there room on the disk? Asked before the first byte."""

import shutil
from pathlib import Path

from cerberus_core.errors import Unavailable

_SPARE = 64 << 20


def check_space(folder: Path, needed: int, what: str) -> None:
    """Raises `Unavailable` unless `needed` more bytes fit into `folder`'s file system."""
    free = shutil.disk_usage(folder).free
    if needed > 0 and needed + _SPARE > free:
        raise Unavailable(
            f"{what} needs {(needed + _SPARE) >> 20} MiB more disk, {free >> 20} MiB are free",
            hint=f"Make room where {folder.parent} lies, or pull something smaller.",
            code="disk_full",
        )
