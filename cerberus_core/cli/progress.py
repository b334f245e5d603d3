"""Download bars."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from cerberus_core.values import PullProgress


class Bars:
    """One bar for each file, on stderr; a line at start and end where nobody looks."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
        )
        self._quiet = quiet
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def report(self, progress: PullProgress) -> None:
        """Take one sign of progress; called from any thread."""
        task = self._tasks.get(progress.file)
        if task is None:
            task = self._tasks[progress.file] = self._progress.add_task(progress.file, total=None)
            if self._progress.disable and not self._quiet:
                sys.stderr.write(f"Fetching {progress.file} …\n")
        self._progress.update(task, completed=progress.done, total=progress.total)
