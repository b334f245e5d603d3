"""SIGHUP: a service reads its settings anew; in a terminal it says that the terminal is gone."""

import os
import signal
import sys

import anyio

from cerberus_core.config import Current

from .stopping import Stopping


async def reload_on_hangup(settings: Current, stopping: Stopping) -> None:
    """Until cancelled."""
    if sys.platform == "win32":
        return
    in_terminal = _has_terminal()
    with anyio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            if in_terminal and not _has_terminal():
                stopping.ask()
                continue
            await settings.try_reload()


def _has_terminal() -> bool:
    if sys.platform == "win32":
        return False
    try:
        os.tcgetpgrp(0)
    except OSError:
        return False
    return True
