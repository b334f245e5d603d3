"""What the relay needs of a client."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import attrs

REST_S = 0.05


class ConnectionLost(Exception):
    """The far side could not be reached, or hung up in the middle; `before_answer` tells which."""

    def __init__(self, message: str, *, before_answer: bool) -> None:
        super().__init__(message)
        self.before_answer = before_answer


@attrs.define(kw_only=True, eq=False)
class Target:
    """Where to POST JSON, and with which headers; they may hold a key. Used again and again."""

    url: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    prepared: Any = attrs.field(default=None, repr=False)
    """The client's own: what it worked out the first time."""


class Answer(ABC):
    """An answer whose body is read piece by piece. Close it on every path."""

    status: int
    headers: dict[str, str]
    """Names in lower case; the last of a repeated one."""

    @abstractmethod
    async def read(self, timeout: float) -> bytes | None:
        """The next bytes; `b""` at the end; None if none came within `timeout` seconds.

        Raises `ConnectionLost` if the far side hung up before the end.
        """

    def whole(self) -> bytes | None:
        """All that is left of the body where it is here already; None where it isn't."""
        return None

    def pass_to(self, take: Callable[[bytes], bool]) -> None:
        """While `read` waits, offer what comes to `take` first.

        If that says True the bytes are done with, and the task need not wake for them.
        A client may as well not.
        """

    async def rest(self) -> None:
        """Wait a moment for the end of an answer whose last word has come.

        Its framing ends right after; with that read, the connection can be kept.
        """
        with contextlib.suppress(ConnectionLost):
            await self.read(REST_S)

    @abstractmethod
    def close(self) -> None:
        """Keep the connection if the answer was read to its end, else hang up at once."""


class Client(ABC):
    """Opens requests and keeps idle connections."""

    @abstractmethod
    async def open(self, target: Target, body: bytes, timeout: float | None = None) -> Answer:
        """Send the request and wait for the head of the answer. Redirects are not followed.

        Cancelling it hangs up. Raises `ConnectionLost`, and `TimeoutError` where the
        head did not come within `timeout` seconds.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Hang up everything."""
