"""Work that may hang, in threads that hold up nothing."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

LEFT_BEHIND = "left behind at the end"
"""The name of such threads."""
T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """The result of `work`, or what it raises.

    A wait that is cancelled leaves the thread behind, and the end of the
    process does not wait for it: other threads of asyncio and anyio are joined.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - handed on, whatever it is
            tell(outcome.set_exception, error)
        else:
            tell(outcome.set_result, result)

    def tell(settle: Callable[..., None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle_if_awaited, settle, value)

    def settle_if_awaited(settle: Callable[..., None], value: object) -> None:
        if not outcome.done():
            settle(value)

    threading.Thread(target=run, name=LEFT_BEHIND, daemon=True).start()
    return await outcome
