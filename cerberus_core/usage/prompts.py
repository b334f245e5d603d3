"""Prompts and answers of keys that ask for it: a file for each request, for a while."""

import os
import threading
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import attrs
import msgspec
import structlog

from cerberus_core.values import time_of

from .said import said

MOST = 256 << 10
"""Bytes of a request, and characters of an answer, that are kept."""
WAITING = 50
"""Requests that wait for the disk; more are not kept."""
SWEEP_S = 3600.0

_DAY_S = 86400.0
_log = structlog.get_logger("usage")


@attrs.frozen(kw_only=True)
class Prompt:
    """What was asked, and what was answered."""

    id: str
    key_id: str
    path: str
    request: str
    """The body; its beginning where it was too long (`request_cut`)."""
    request_cut: bool = False
    answer: str | None = None
    """The text of the answer, without calls of tools; None: it has none."""
    answer_cut: bool = False


class Prompts:
    """`keep` returns at once; one thread writes. A full disk costs the prompt, not the answer."""

    def __init__(self, folder: Path, *, days: float, most_bytes: int) -> None:
        """Kept for `days`, the newest `most_bytes` of them."""
        self.warning: str | None = None
        self._folder = folder
        self._days = days
        self._most_bytes = most_bytes
        self._written = 0
        self._waiting: deque[tuple[Prompt, bytes]] = deque()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prompt-writer", daemon=True)
        self._thread.start()

    def keep(
        self,
        id: str,
        key_id: str,
        path: str,
        *,
        request: bytes,
        answer: bytes,
        cut: bool = False,
    ) -> None:
        """Of a finished request; `answer` as it went to the client, its beginning where `cut`."""
        if len(self._waiting) >= WAITING:
            return
        text = request[:MOST].decode(errors="ignore")
        prompt = Prompt(
            id=id,
            key_id=key_id,
            path=path,
            request=text,
            request_cut=len(request) > MOST,
            answer_cut=cut,
        )
        self._waiting.append((prompt, answer))
        self._wake.set()

    def find(self, request_id: str) -> Prompt | None:
        """Blocking."""
        if time_of(request_id) is None:
            return None
        try:
            return msgspec.json.decode(self._file(request_id).read_bytes(), type=Prompt)
        except (OSError, msgspec.MsgspecError):
            return None

    def close(self) -> None:
        """Write what waits and stop. Blocking."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=5)

    def sweep(self, now: datetime) -> None:
        """Delete what is too old, and the oldest of what is too much. Blocking."""
        files = sorted(self._folder.glob("*.json"), reverse=True)
        size = 0
        for file in files:
            made = time_of(file.stem)
            try:
                size += file.stat().st_size
                age_s = 0.0 if made is None else (now - made).total_seconds()
                if age_s > self._days * _DAY_S or size > self._most_bytes:
                    file.unlink()
            except OSError as error:
                _log.warning("prompt_not_deleted", file=str(file), error=str(error))
        self._written = min(size, self._most_bytes)

    def _file(self, request_id: str) -> Path:
        return self._folder / f"{request_id}.json"

    def _run(self) -> None:
        due = 0.0
        while True:
            if time.monotonic() >= due or self._written > self._most_bytes:
                self.sweep(datetime.now(UTC))
                due = time.monotonic() + SWEEP_S
            while self._waiting:
                self._write(*self._waiting.popleft())
            if self._stop.is_set():
                return
            self._wake.wait(SWEEP_S)
            self._wake.clear()

    def _write(self, prompt: Prompt, answer: bytes) -> None:
        text = said(answer)
        prompt = attrs.evolve(
            prompt,
            answer=None if text is None else text[:MOST],
            answer_cut=prompt.answer_cut or (text is not None and len(text) > MOST),
        )
        file = self._file(prompt.id)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            data = msgspec.json.encode(prompt)
            fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(fd, "wb") as stream:
                    stream.write(data)
            except OSError:
                file.unlink()
                raise
        except OSError as error:
            if self.warning is None:
                _log.warning("prompt_not_kept", error=str(error), folder=str(self._folder))
            self.warning = (
                f"Prompts of keys that ask for it can't be kept ({error.strerror or error}). "
                f"Check the disk of {self._folder}."
            )
        else:
            self._written += len(data)
            self.warning = None
