"""Word of changes to a file, by whatever way it is saved.

Folders are watched, not the file: an editor puts another one in its place, and
a link may lead through several folders, any of which can be swapped (as
Kubernetes swaps `..data`).
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from cerberus_core.platform.files import read_regular

from .quick import MAX_BYTES

STEP_MS = 200
"""How often the watching thread wakes to see whether there was word."""
LOOK_S = 5.0
"""A look without word: some network folders tell of nothing."""
_MOST_LINKS = 40

Content = bytes | int | None
"""What a file holds, the number of the error that kept it from being read, None without one."""

_log = structlog.get_logger("config")


def content(file: Path) -> Content:
    """Blocking."""
    try:
        return read_regular(file, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.errno or -1


def folders_of(file: Path) -> dict[Path, int]:
    """Every folder in which a change may change what `file` holds, with its inode. Blocking.

    A folder that isn't there yet is stood for by the nearest one above it.
    """
    path = Path(os.path.abspath(file))
    folders: set[Path] = set()
    for _ in range(_MOST_LINKS):
        link = next((part for part in [*reversed(path.parents), path] if part.is_symlink()), None)
        if link is None:
            break
        folders.add(link.parent)
        path = Path(os.path.normpath(link.parent / os.readlink(link) / path.relative_to(link)))
    folders.add(next(parent for parent in path.parents if parent.is_dir()))
    return {folder: folder.stat().st_ino for folder in folders}


class Watch:
    """Calls `tell` from a thread of its own whenever `file` holds something else."""

    def __init__(self, file: Path, seen: Content, tell: Callable[[], None]) -> None:
        """`seen`: what it held when it was read last."""
        self._file = file
        self._seen = seen
        self._tell = tell
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="settings watch", daemon=True).start()

    def stop(self) -> None:
        """Waits for nothing; no word comes after it."""
        self._stop.set()

    def _run(self) -> None:
        failed = False
        while not self._stop.is_set():
            try:
                self._watch()
            except (OSError, RuntimeError) as error:  # too many watches, a folder that just left
                if not failed:
                    _log.info("settings_looked_at_now_and_then", s=LOOK_S, why=str(error))
                failed = True
                self._look()
                self._stop.wait(LOOK_S)

    def _watch(self) -> None:
        """Until other folders are to be watched."""
        from watchfiles import watch

        folders = folders_of(self._file)
        changes = watch(
            *folders,
            watch_filter=None,
            step=STEP_MS,
            debounce=STEP_MS,
            rust_timeout=int(LOOK_S * 1000),
            yield_on_timeout=True,
            stop_event=self._stop,
            recursive=False,
            raise_interrupt=False,
        )
        for _ in changes:
            self._look()
            if folders_of(self._file) != folders:
                return

    def _look(self) -> None:
        found = content(self._file)
        if found != self._seen and not self._stop.is_set():
            self._seen = found
            self._tell()
