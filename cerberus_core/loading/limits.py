"""Running what others wrote under a time limit."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class TookTooLong(Exception):
    """It didn't return within `seconds`; its thread is left behind."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"did not return within {seconds:g} s")
        self.seconds = seconds


class Ended(Exception):
    """It tried to end the process (SystemExit and the like), which is its cause."""


def within(seconds: float, name: str, call: Callable[[], T]) -> T:
    """The result of `call`. Raises what it raised, Ended, or TookTooLong.

    In a daemon thread: a hang can't be ended in Python, only left behind, and
    it must not keep the process from ending.
    """
    outcome: list[Any] = []
    raised: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # noqa: BLE001 SystemExit too is only a failure of the plugin
            raised.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name=name, daemon=True).start()
    if not done.wait(seconds):
        raise TookTooLong(seconds)
    if raised and isinstance(raised[0], Exception):
        raise raised[0]
    if raised:
        raise Ended from raised[0]
    return cast(T, outcome[0])
