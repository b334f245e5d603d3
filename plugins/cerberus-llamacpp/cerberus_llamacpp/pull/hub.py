"""Fetch files of a hub repository with `huggingface_hub`. Blocking: runs in a thread."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cerberus_core.errors import CerberusError, Unavailable
from cerberus_core.platform import FileLock
from cerberus_core.values import PullProgress

from .choose import RemoteFile, Wish, choose
from .explain import explain
from .space import check_space

STAGING = ".pulls"


class Stopped(Exception):
    """The pull was cancelled."""


class Download:
    """One pull. Set `cancelled` to end it at the next piece."""

    def __init__(
        self, wish: Wish, models_dir: Path, report: Callable[[PullProgress], None]
    ) -> None:
        self.cancelled = threading.Event()
        self._wish = wish
        self._report = report
        self._target = models_dir / wish.repo
        key = "--".join([wish.repo, wish.file or wish.quant or "default"]).replace("/", "--")
        self._staging = models_dir / STAGING / key

    def run(self) -> Path:
        """The model's first file, in its place. What was begun is gone on with."""
        lock = FileLock(self._staging.with_name(self._staging.name + ".lock"))
        if not lock.acquire(blocking=False):
            raise Unavailable(f"{self._wish.repo} is being pulled already", hint="wait for it")
        try:
            return self._run()
        except CerberusError:
            raise
        except Exception as error:
            known = explain(error, self._wish.repo)
            if known is None:
                raise
            raise known from error
        finally:
            lock.release()

    def _run(self) -> Path:
        import huggingface_hub
        from huggingface_hub import constants

        if "HF_HUB_DISABLE_XET" not in os.environ:
            # Plain HTTP can be resumed, counted and stopped; whoever wants the
            # other transport says so in the environment.
            constants.HF_HUB_DISABLE_XET = True
        endpoint = os.environ.get("HF_ENDPOINT")
        api = huggingface_hub.HfApi(endpoint=endpoint)
        info = api.model_info(self._wish.repo, files_metadata=True)
        siblings = [RemoteFile(file.rfilename, file.size) for file in info.siblings or []]
        files = choose(self._wish, siblings)
        wanted = [file for file in files if not self._there(file)]
        self._check_space(wanted)
        count = _Count(files, self._report, self.cancelled)
        for file in files:
            if file not in wanted:
                count.skip(file)
        fetched = []
        for file in wanted:
            count.begin(file)
            path = huggingface_hub.hf_hub_download(
                self._wish.repo,
                file.path,
                revision=info.sha,
                local_dir=self._staging,
                endpoint=endpoint,
                tqdm_class=count.bar(),
            )
            count.end(file)
            fetched.append((Path(path), self._target / file.name))
        # Only now, so that a split with half of its parts is never seen.
        self._target.mkdir(parents=True, exist_ok=True)
        for source, target in fetched:
            os.replace(source, target)
        shutil.rmtree(self._staging, ignore_errors=True)
        return self._target / files[0].name

    def _there(self, file: RemoteFile) -> bool:
        try:
            size = (self._target / file.name).stat().st_size
        except OSError:
            return False
        return file.size is not None and size == file.size

    def _check_space(self, wanted: list[RemoteFile]) -> None:
        self._staging.mkdir(parents=True, exist_ok=True)
        begun = sum([path.stat().st_size for path in self._staging.rglob("*") if path.is_file()])
        needed = sum([file.size or 0 for file in wanted]) - begun
        check_space(self._staging, needed, self._wish.repo)


class _Count:
    """Bytes of the whole pull, told after each piece."""

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

    def skip(self, file: RemoteFile) -> None:
        self._before += file.size or 0

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
        self._before += file.size if file.size is not None else self._now
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
