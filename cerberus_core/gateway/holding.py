"""Signs of life while something slow is awaited."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Holding:
    """`async with Holding(after_s, signs)`: runs `signs()` from `after_s` seconds on.

    Costs one timer where the block ends earlier, which is nearly always.
    """

    def __init__(self, after_s: float, signs: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._after_s = after_s
        self._signs = signs
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._signs())

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
