"""What an answer says besides the answer, in the words of each client's wire. Pure."""

from typing import Protocol

from cerberus_core.errors import CerberusError
from cerberus_core.gateway.answers import error_body, error_event, error_value

from . import messages, responses


class Dialect(Protocol):
    """Errors and signs of life."""

    def error_body(self, error: CerberusError, request_id: str | None = None) -> bytes:
        """A whole answer that is an error."""
        ...

    def error_event(self, error: CerberusError, request_id: str) -> bytes:
        """An error as the last event of a stream."""
        ...

    def sign(self, words: str) -> bytes:
        """What a silent stream may carry, so that nobody hangs up."""
        ...


class OpenAI:
    """Chat Completions, Completions, Embeddings, Rerank."""

    def error_body(self, error: CerberusError, request_id: str | None = None) -> bytes:
        return error_body(error)

    def error_event(self, error: CerberusError, request_id: str) -> bytes:
        return error_event(error_value(error, request_id=request_id))

    def sign(self, words: str) -> bytes:
        plain = "".join(c if c.isprintable() else "?" for c in words)
        return f": {plain}\n\n".encode()


class Messages:
    """Anthropic's."""

    def error_body(self, error: CerberusError, request_id: str | None = None) -> bytes:
        return messages.error_body(error, request_id)

    def error_event(self, error: CerberusError, request_id: str) -> bytes:
        return messages.error_event(error, request_id)

    def sign(self, words: str) -> bytes:
        return messages.KEEP_ALIVE


class Responses(OpenAI):
    """OpenAI's newer one: errors of a stream are events of their own kind."""

    def error_body(self, error: CerberusError, request_id: str | None = None) -> bytes:
        return responses.error_body(error, request_id)

    def error_event(self, error: CerberusError, request_id: str) -> bytes:
        return responses.error_event(error, request_id)


OPENAI = OpenAI()
_OF: dict[str, Dialect] = {"messages": Messages(), "responses": Responses()}


def dialect_of(path: str) -> Dialect:
    """The one of a client that asks at `path`, which needn't exist."""
    return _OF.get(path.removeprefix("/v1/").partition("/")[0], OPENAI)
