"""Clients that speak Responses, backends that speak Anthropic Messages: by way of chat. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from cerberus_core.errors import CerberusError
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError

from . import chat_over_messages, responses_over_chat
from .chat_stream import ChatStream
from .responses import Asked
from .responses_stream import ResponsesStream


def request(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The Messages request. Raises `BadRequest`, `Unsupported`."""
    return chat_over_messages.request(responses_over_chat.request(fields))


def answer(body: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """The response. Raises `UpstreamFailed`."""
    return responses_over_chat.answer(chat_over_messages.answer(body, _between(asked)), asked)


def _between(asked: Asked) -> chat_over_messages.Asked:
    return chat_over_messages.Asked(
        id=asked.id, model=asked.model, created=asked.created_at, wants_usage=True
    )


class ResponsesOverMessagesStream:
    """The interface of `ResponsesStream`; metered as it comes in."""

    def __init__(self, facts: Facts, asked: Asked, *, now: Callable[[], float]) -> None:
        self._chat = ChatStream(facts, _between(asked), now=now)
        self._responses = ResponsesStream(Facts(), asked, now=now)
        self.before_error = b""

    @property
    def done(self) -> bool:
        return self._chat.done

    @property
    def finished(self) -> bool:
        return self._chat.finished

    def feed(self, chunk: bytes) -> bytes:
        """As `ResponsesStream.feed`."""
        try:
            return self._responses.feed(self._chat.feed(chunk))
        except UpstreamError:
            self.before_error = self._responses.feed(self._chat.before_error)
            raise

    def quick(self, chunk: bytes) -> bytes | None:
        """As `ResponsesStream.quick`."""
        texts = self._chat.texts(chunk)
        return None if texts is None else self._responses.quick_texts(texts)

    def passed(self) -> None:
        self._chat.passed()
        self._responses.passed()

    def keep_alive(self) -> bytes:
        return self._responses.keep_alive()

    def tail(self, extra: dict[str, Any]) -> bytes:
        return self._responses.feed(self._chat.tail({})) + self._responses.tail(extra)

    def failed(self, error: CerberusError) -> bytes:
        return self._responses.failed(error)
