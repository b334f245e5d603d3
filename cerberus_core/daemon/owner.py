"""One daemon owns a data folder; where it listens stands there for the commands."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import structlog
from anyio.to_thread import run_sync as in_thread

import cerberus_core
from cerberus_core.errors import AlreadyRunning, CerberusError
from cerberus_core.platform import FileLock, Folders

_log = structlog.get_logger("daemon")


@asynccontextmanager
async def sole_owner(folders: Folders) -> AsyncIterator[None]:
    lock = FileLock(folders.daemon_lock)

    def take() -> bool:
        folders.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not lock.acquire(blocking=False):
            return False
        # One that was killed left its address: with the lock held, commands would trust it.
        folders.daemon_file.unlink(missing_ok=True)
        return True

    try:
        # A command that looks whether a daemon runs holds it for a moment: look again.
        tries = 10
        while not await in_thread(take):
            tries -= 1
            if not tries:
                raise await in_thread(_already_running, folders)
            await anyio.sleep(0.05)
    except OSError as error:
        raise CerberusError(
            f"{folders.data} can't be written: {error.strerror or error}",
            hint="Mend it, or set CERBERUS_DATA to another folder.",
            code="data_unwritable",
        ) from None
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await in_thread(lambda: folders.daemon_file.unlink(missing_ok=True))
        lock.release()


def _already_running(folders: Folders) -> AlreadyRunning:
    try:
        where = f" and listens at {json.loads(folders.daemon_file.read_text())['url']}"
    except (OSError, ValueError, KeyError, TypeError):
        where = ""
    return AlreadyRunning(
        f"Another daemon owns {folders.data}{where}",
        hint="`cerberus status` shows it; stop it first, or set CERBERUS_DATA to another folder.",
    )


def write_daemon_file(folders: Folders, url: str) -> None:
    """For the commands, which look here for the daemon's address and else in the settings."""
    said = {"pid": os.getpid(), "url": url, "version": cerberus_core.__version__}
    temporary = folders.daemon_file.with_suffix(".new")
    try:
        temporary.write_text(json.dumps(said))
        temporary.replace(folders.daemon_file)
    except OSError as error:
        _log.warning("daemon_file_unwritable", file=str(temporary), error=str(error))
