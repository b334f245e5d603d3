"""Fetch a model from the hub with `huggingface_hub`. Blocking: runs in a thread."""

import os
import shutil
import threading
from collections.abc import Callable
from json import JSONDecodeError
from pathlib import Path

from cerberus_core.errors import CerberusError, Unavailable
from cerberus_core.platform import FileLock
from cerberus_core.values import PullProgress

from .choose import RemoteFile, Wish, choose
from .count import Count
from .explain import explain
from .fetch import fetch
from .space import check_space

STAGING = ".pulls"


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
            raise Unavailable(f"{self._wish.repo} is being pulled already", hint="Wait for it.")
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

        # The client would ask the hub for a list of coding agents, look which one
        # runs it, and tell: a pull tells nobody more than what it fetches.
        constants.HF_HUB_DISABLE_TELEMETRY = True
        endpoint = os.environ.get("HF_ENDPOINT")
        api = huggingface_hub.HfApi(endpoint=endpoint)
        try:
            info = api.model_info(self._wish.repo, files_metadata=True)
        except (KeyError, TypeError, AttributeError, JSONDecodeError) as error:
            raise Unavailable(
                f"{endpoint or 'the hub'} answered, but not as the hub does",
                hint="Does HF_ENDPOINT name a mirror of it?",
            ) from error
        siblings = [
            RemoteFile(file.rfilename, file.size, file.lfs.sha256 if file.lfs else None)
            for file in info.siblings or []
        ]
        files = choose(self._wish, siblings)
        wanted = [file for file in files if not self._there(file)]
        self._check_space(wanted)
        count = Count(files, self._report, self.cancelled)
        fetched = []
        for file in files:
            count.begin(file)
            if file in wanted:
                url = huggingface_hub.hf_hub_url(
                    self._wish.repo, file.path, revision=info.sha, endpoint=endpoint
                )
                part = self._staging / f"{info.sha}--{file.name}.part"
                fetch(url, part, file, count)
                fetched.append((part, self._target / file.name))
            count.end(file)
        # Only now, so that a split with half of its parts is never seen.
        self._target.mkdir(parents=True, exist_ok=True)
        for part, target in fetched:
            os.replace(part, target)
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
