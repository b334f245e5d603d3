"""Bytes of a whole pull, told after each piece; and where a pull is stopped."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from cerberus_core.values import PullProgress

from .choose import RemoteFile


class Stopped(Exception):
    """The pull was cancelled."""


class Count:
    """Adds up the files of one pull. Raises `Stopped` at the first piece after `cancelled`."""

    def __init__(
        self,
        files: list[RemoteFile],
        report: Callable[[PullProgress], None],
        cancelled: threading.Event,
    ) -> None:
        sizes = [file.size for file in files]
        self._total = None if None in sizes else sum([size or 0 for size in sizes])
        self._report, self._cancelled = report, cancelled
        self._before, self._now, self._name = 0, 0, files[0].name

    def begin(self, file: RemoteFile) -> None:
        self._name, self._now = file.name, 0
        self.add(0)

    def add(self, count: int) -> None:
        self._now += count
        self._report(
            PullProgress(file=self._name, done=self._before + self._now, total=self._total)
        )
        if self._cancelled.is_set():
            raise Stopped

    def end(self, file: RemoteFile) -> None:
        """`file` is there, fetched now or earlier."""
        self._before += self._now if file.size is None else file.size
        self._now = 0
        self.add(0)

    def bar(self) -> Any:
        """A class with the part of tqdm's face that the hub's client looks at."""
        count = self

        class Bar:
            def __init__(self, *args: object, initial: int = 0, **options: object) -> None:
                count.add(initial)

            def update(self, n: float | None = 1) -> None:
                count.add(int(n or 0))

            def close(self) -> None:
                pass

            def __enter__(self) -> Self:
                return self

            def __exit__(
                self,
                kind: type[BaseException] | None,
                error: BaseException | None,
                trace: TracebackType | None,
            ) -> None:
                pass

        return Bar
