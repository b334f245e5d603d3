"""Disks that are full: small ones in memory."""

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk_at(folder: Path, kib: int = 64) -> Iterator[None]:
    """A disk of `kib` KiB is mounted at `folder`; skips where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("a full disk needs `mount`")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"a full disk needs the right to mount: {error.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no byte free; remove the returned file to make room again."""
    ballast = folder / "ballast"
    for size in (4096, 1):
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            while file.write(b"x" * size) == size:
                pass
    return ballast
