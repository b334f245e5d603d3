"""What the relay needs of a client."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping

import attrs

REST_S = 0.05


class ConnectionLost(Exception):
    """The far side could not be reached, or hung up in the middle; `before_answer` tells which."""

    def __init__(self, message: str, *, before_answer: bool) -> None:
        super().__init__(message)
        self.before_answer = before_answer


@attrs.define(kw_only=True)
class Request:
    """A POST of JSON. `headers` may hold a key."""

    url: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)


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
    async def open(self, request: Request, timeout: float | None = None) -> Answer:
        """Send the request and wait for the head of the answer. Redirects are not followed.

        Cancelling it hangs up. Raises `ConnectionLost`, and `TimeoutError` where the
        head did not come within `timeout` seconds.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Hang up everything."""
