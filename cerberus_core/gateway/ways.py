"""The way of a request to an endpoint: at which path, in which words, and back. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cerberus_core.errors import CerberusError, Unsupported, UpstreamFailed
from cerberus_core.values import Endpoint, Wire

from . import body
from .facts import Facts
from .request import Parameters, Parsed
from .stream import OpenAIStream
from .upstream_errors import message_of

PATHS: dict[str, Wire] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
}
Now = Callable[[], float]


class AnswerStream(Protocol):
    """A streamed answer on its way through; `stream.OpenAIStream` tells what each does."""

    done: bool
    before_error: bytes

    @property
    def finished(self) -> bool: ...

    def feed(self, chunk: bytes) -> bytes: ...

    def quick(self, chunk: bytes) -> bytes | None: ...

    def passed(self) -> None: ...

    def tail(self, extra: dict[str, Any]) -> bytes: ...


class Way(Protocol):
    """One request's way."""

    path: str
    """Of the endpoint, as `/v1/…`."""
    refusals_pass: bool
    """Whether a client understands the endpoint's refusals as they are."""
    can_stream: bool
    """Whether the endpoint can be asked for a stream here."""

    def body(self, model: str, *, stream: bool, parameters: Parameters) -> bytes:
        """The request in the endpoint's words. Raises `BadRequest`, `Unsupported`."""
        ...

    def stream(self, facts: Facts, *, public_model: str, renamed: bool, now: Now) -> AnswerStream:
        """For an answer that is streamed to the client.

        `renamed`: the endpoint's own name for the model is another one.
        """
        ...

    def whole(
        self,
        data: bytes,
        facts: Facts,
        *,
        public_model: str,
        renamed: bool,
        extra: Callable[[], dict[str, Any]],
    ) -> bytes:
        """A whole answer in the client's words. Raises `body.NotJson`, `UpstreamFailed`.

        `extra` is asked for once the answer has been metered.
        """
        ...


class Straight:
    """The endpoint speaks what the client speaks."""

    refusals_pass = True

    def __init__(self, parsed: Parsed) -> None:
        self.path = parsed.path
        self.can_stream = parsed.path not in ("/v1/embeddings", "/v1/rerank")
        self._parsed = parsed

    def body(self, model: str, *, stream: bool, parameters: Parameters) -> bytes:
        return self._parsed.body_for(model, stream=stream, parameters=parameters)

    def stream(self, facts: Facts, *, public_model: str, renamed: bool, now: Now) -> AnswerStream:
        parsed = self._parsed
        return OpenAIStream(
            facts,
            public_model=public_model if renamed else None,
            wants_usage=parsed.wants_usage,
            several=parsed.several,
            now=now,
        )

    def whole(
        self,
        data: bytes,
        facts: Facts,
        *,
        public_model: str,
        renamed: bool,
        extra: Callable[[], dict[str, Any]],
    ) -> bytes:
        fields = body.read(data, facts)
        refuse_error(fields, public_model)
        name = public_model if renamed else None
        return body.finish(fields, public_model=name, extra=extra())


def refuse_error(fields: Mapping[str, Any], model: str) -> None:
    """Raises `UpstreamFailed` for an error with a good status."""
    error = fields.get("error")
    if error is not None and bytes(error) != b"null" and "choices" not in fields:
        raise UpstreamFailed(f"{model}: {message_of(bytes(error))}")


def way_of(parsed: Parsed, endpoint: Endpoint, model: str) -> Way:
    """Raises `Unsupported` where the endpoint speaks nothing that serves the request."""
    wire = PATHS[parsed.path]
    if wire in endpoint.wires:
        return Straight(parsed)
    raise no_way(parsed.path, model, endpoint)


def no_way(path: str, model: str, endpoint: Endpoint) -> CerberusError:
    return Unsupported(
        f"{model} can't be asked at {path}",
        hint=f"It speaks {', '.join(sorted(endpoint.wires)) or 'nothing that we know'}.",
        code="wire_unsupported",
    )
