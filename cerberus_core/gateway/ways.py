"""The way of a request to an endpoint: at which path, in which words, and back. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
import msgspec
from msgspec import Raw

from cerberus_core.errors import CerberusError, Unsupported, UpstreamFailed
from cerberus_core.values import Endpoint, Wire

from . import body, media
from .client import Voice
from .facts import Facts
from .request import Parameters, Parsed, with_parameters
from .stream import OpenAIStream
from .upstream_errors import message_of
from .wires import (
    chat_over_messages,
    messages,
    messages_over_chat,
    rerank,
    responses,
    responses_over_chat,
    responses_over_messages,
    text_calls,
)
from .wires.chat_stream import ChatStream
from .wires.messages_stream import MessagesStream
from .wires.responses_over_messages import ResponsesOverMessagesStream
from .wires.responses_stream import ResponsesStream
from .wires.system_first import system_first

PATHS: dict[str, Wire] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
    "/v1/audio/speech": "speech",
    "/v1/audio/transcriptions": "transcriptions",
    "/v1/audio/translations": "translations",
    "/v1/images/generations": "images",
    "/v1/images/edits": "image_edits",
}
Now = Callable[[], float]
_encode = msgspec.json.Encoder().encode


class AnswerStream(Protocol):
    """A streamed answer on its way through; `stream.OpenAIStream` tells what each does."""

    @property
    def done(self) -> bool: ...

    @property
    def before_error(self) -> bytes: ...

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

    def fields(self) -> Mapping[str, Any]:
        """The request in the endpoint's words, without what `body` adds. Raises `BadRequest`."""
        ...

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

    def fields(self) -> Mapping[str, Any]:
        return self._parsed.decoded()

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


class Translated:
    """A translator stands between the client and the endpoint."""

    refusals_pass = False
    can_stream = True

    def __init__(
        self,
        path: str,
        request: dict[str, Any],
        *,
        answer: Callable[[Mapping[str, Any]], dict[str, Any]],
        stream: Callable[[Facts, Now], AnswerStream],
        asks_usage: bool,
    ) -> None:
        """`path` and `request` are the endpoint's. `asks_usage`: its streams tell it if asked."""
        self.path = path
        self._request = request
        self._answer = answer
        self._stream = stream
        self._asks_usage = asks_usage

    def fields(self) -> Mapping[str, Any]:
        return self._request

    def body(self, model: str, *, stream: bool, parameters: Parameters) -> bytes:
        asked = with_parameters(self._request, parameters) | {"model": model, "stream": stream}
        if stream and self._asks_usage:
            asked["stream_options"] = {"include_usage": True}
        else:
            asked.pop("stream_options", None)
        return _encode(asked)

    def stream(self, facts: Facts, *, public_model: str, renamed: bool, now: Now) -> AnswerStream:
        return self._stream(facts, now)

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
        told = self._answer({key: msgspec.json.decode(value) for key, value in fields.items()})
        usage = told.get("usage")
        if isinstance(usage, dict):
            told["usage"] = {**usage, "cerberus": extra()}
        return _encode(told)


class StraightMessages(Straight):
    """The client and the endpoint speak Messages."""

    def stream(self, facts: Facts, *, public_model: str, renamed: bool, now: Now) -> AnswerStream:
        return MessagesStream(facts, public_model=public_model if renamed else None, now=now)

    def whole(
        self,
        data: bytes,
        facts: Facts,
        *,
        public_model: str,
        renamed: bool,
        extra: Callable[[], dict[str, Any]],
    ) -> bytes:
        fields = messages.read(data, facts)
        refuse_error(fields, public_model)
        name = public_model if renamed else None
        return body.finish(fields, public_model=name, extra=extra())


class Media(Straight):
    """Audio or images: what is answered is nothing to look into (`media_attempt.py`)."""

    def __init__(self, parsed: Parsed) -> None:
        super().__init__(parsed)
        self.content_type = "application/json"
        if isinstance(parsed, media.Form):
            self.content_type = parsed.content_type


class Reranked(Straight):
    """The endpoint ranks; how it says so is made into one shape."""

    def __init__(self, parsed: Parsed, model: str) -> None:
        super().__init__(parsed)
        self._asked = attrs.evolve(rerank.parse(parsed.decoded()), model=model)

    def whole(
        self,
        data: bytes,
        facts: Facts,
        *,
        public_model: str,
        renamed: bool,
        extra: Callable[[], dict[str, Any]],
    ) -> bytes:
        try:
            told = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise body.NotJson from None
        if isinstance(told, dict) and told.get("error") is not None and "results" not in told:
            raise UpstreamFailed(f"{public_model}: {message_of(_encode(told['error']))}")
        ranked = rerank.answer(told, self._asked)
        if ranked["usage"] is not None:
            facts.take_usage(_encode(ranked["usage"]))
            ranked["usage"]["cerberus"] = extra()
        return _encode(ranked)


class WithTextCalls:
    """Before a way that asks for a chat: calls that stand in the answer's text are calls."""

    def __init__(self, way: Way, tools: frozenset[str], request_id: str) -> None:
        self.path = way.path
        self.refusals_pass = way.refusals_pass
        self.can_stream = way.can_stream
        self.fields = way.fields
        self.body = way.body
        self._way = way
        self._tools = tools
        self._request_id = request_id

    def stream(self, facts: Facts, *, public_model: str, renamed: bool, now: Now) -> AnswerStream:
        inner = self._way.stream(facts, public_model=public_model, renamed=renamed, now=now)
        voiced = isinstance(inner, Voice)
        kind = text_calls.VoicedTextCallsStream if voiced else text_calls.TextCallsStream
        return kind(inner, facts, tools=self._tools, answer_id=self._request_id, now=now)

    def whole(self, data: bytes, facts: Facts, **more: Any) -> bytes:
        return self._way.whole(text_calls.whole(data, self._tools, self._request_id), facts, **more)


@attrs.frozen(kw_only=True)
class Asker:
    """What an answer of another wire is made with."""

    request_id: str
    model: str
    """Its public name."""
    unix: int


def way_of(
    parsed: Parsed,
    endpoint: Endpoint,
    asked_by: Callable[[], Asker],
    *,
    writes_calls: bool = False,
) -> Way:
    """Raises `BadRequest` where the request is wrong, `Unsupported` where the endpoint speaks
    nothing that serves it.

    `asked_by` is called where more than bytes are passed on. `writes_calls`: the model writes
    its tool calls into the text.
    """
    wire = PATHS[parsed.path]
    plain = not (writes_calls or endpoint.system_first)
    if plain and wire == "chat" and wire in endpoint.wires:  # nearly all
        return Straight(parsed)
    asker = asked_by()
    if wire == "responses":
        responses.refuse_state(parsed.decoded())  # also where the endpoint would keep answers
    way = _straight_or_translated(wire, parsed, endpoint, asker)
    tools = frozenset[str]()
    if writes_calls and way.path == "/v1/chat/completions":
        tools = text_calls.offered(way.fields())
    return WithTextCalls(way, tools, asker.request_id) if tools else way


def _straight_or_translated(wire: Wire, parsed: Parsed, endpoint: Endpoint, asker: Asker) -> Way:
    if wire == "chat" and endpoint.system_first:
        parsed = _system_first(parsed)
    if wire in endpoint.wires:
        if parsed.path in media.PATHS:
            return Media(parsed)
        if wire == "rerank":
            return Reranked(parsed, asker.model)
        return StraightMessages(parsed) if wire == "messages" else Straight(parsed)
    for between in endpoint.wires & _OVER.get(wire, {}).keys():
        return _OVER[wire][between](parsed.decoded(), asker)
    raise no_way(parsed.path, asker.model, endpoint)


def _system_first(parsed: Parsed) -> Parsed:
    raw = parsed.fields["messages"]
    if not any(role in bytes(raw) for role in (b'"system"', b'"developer"')):
        return parsed
    messages = parsed.decoded()["messages"]
    ordered = Raw(_encode(system_first(messages)))
    return attrs.evolve(parsed, fields={**parsed.fields, "messages": ordered})


def no_way(path: str, model: str, endpoint: Endpoint) -> CerberusError:
    return Unsupported(
        f"{model} can't be asked at {path}",
        hint=f"It speaks {', '.join(sorted(endpoint.wires)) or 'nothing that we know'}.",
        code="wire_unsupported",
    )


def _messages_over_chat(fields: dict[str, Any], asker: Asker) -> Way:
    stops = fields.get("stop_sequences")
    asked = messages_over_chat.Asked(
        model=asker.model,
        request_id=asker.request_id,
        stop_sequences=tuple(stops) if isinstance(stops, list) else (),
    )
    return Translated(
        "/v1/chat/completions",
        messages_over_chat.request(fields),
        answer=lambda told: messages_over_chat.answer(told, asked),
        stream=lambda facts, now: messages_over_chat.MessagesOverChat(facts, asked, now=now),
        asks_usage=True,
    )


def _responses_asked(fields: dict[str, Any], asker: Asker) -> responses.Asked:
    id = f"resp_{asker.request_id}"
    return responses.Asked.of(fields, id=id, model=asker.model, created_at=asker.unix)


def _responses_over_chat(fields: dict[str, Any], asker: Asker) -> Way:
    asked = _responses_asked(fields, asker)
    return Translated(
        "/v1/chat/completions",
        responses_over_chat.request(fields),
        answer=lambda told: responses_over_chat.answer(told, asked),
        stream=lambda facts, now: ResponsesStream(facts, asked, now=now),
        asks_usage=True,
    )


def _responses_over_messages(fields: dict[str, Any], asker: Asker) -> Way:
    asked = _responses_asked(fields, asker)
    return Translated(
        "/v1/messages",
        responses_over_messages.request(fields),
        answer=lambda told: responses_over_messages.answer(told, asked),
        stream=lambda facts, now: ResponsesOverMessagesStream(facts, asked, now=now),
        asks_usage=False,
    )


def _chat_over_messages(fields: dict[str, Any], asker: Asker) -> Way:
    options = fields.get("stream_options")
    asked = chat_over_messages.Asked(
        id=f"chatcmpl-{asker.request_id}",
        model=asker.model,
        created=asker.unix,
        wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )
    return Translated(
        "/v1/messages",
        chat_over_messages.request(fields),
        answer=lambda told: chat_over_messages.answer(told, asked),
        stream=lambda facts, now: ChatStream(facts, asked, now=now),
        asks_usage=False,
    )


_OVER: dict[Wire, dict[Wire, Callable[[dict[str, Any], Asker], Way]]] = {
    "messages": {"chat": _messages_over_chat},
    "responses": {"chat": _responses_over_chat, "messages": _responses_over_messages},
    "chat": {"messages": _chat_over_messages},
}
"""What a client speaks → what an endpoint may speak instead → the way between."""
