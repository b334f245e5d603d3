"""A Chat Completions stream told as a Responses stream, and metered. Pure.

Ends in one of two ways, as OpenAIStream does: `response.completed` or
`response.incomplete`; or what `failed` gives.
"""

from collections.abc import Callable, Mapping
from typing import Any

from cerberus_core.errors import CerberusError
from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError

from . import chat_events
from .chat_events import Choice, Chunk, is_something, text_of, value_of
from .eventwise import Eventwise
from .responses import Asked, usage_of
from .responses_events import Writer


class ResponsesStream(Eventwise):
    """The interface of `OpenAIStream`, for clients of /v1/responses."""

    def __init__(self, facts: Facts, asked: Asked, *, now: Callable[[], float]) -> None:
        super().__init__()
        self._facts = facts
        self._writer = Writer(asked)
        self._now = now
        self._usage: Mapping[str, Any] | None = None
        self._texts: list[bytes] = []
        self.finished = False
        """The model has told why it ended."""

    def quick(self, chunk: bytes) -> bytes | None:
        """What to send on if `chunk` is whole events of text that goes on as it did.

        Tell `passed` once it is sent. None: nothing has happened, `feed` it.
        """
        if self.finished or not self._splitter.is_whole(chunk):
            return None
        texts = chat_events.texts_of(chunk)
        return None if texts is None else self.quick_texts(texts)

    def quick_texts(self, texts: list[bytes]) -> bytes | None:
        """As `quick`, for texts as JSON strings."""
        self._texts = texts
        return self._writer.peek(texts)

    def passed(self) -> None:
        """The events of `quick` were sent."""
        self._writer.took(self._texts)
        self._facts.pieces += len(self._texts)
        self._facts.last_at = self._now()

    def keep_alive(self) -> bytes:
        """A real event: Codex counts no comment as life."""
        return self._writer.keep_alive()

    def tail(self, extra: dict[str, Any]) -> bytes:
        """The end of a good answer; `extra` is what stands in `usage.cerberus`."""
        usage = usage_of(self._usage)
        if usage is not None:
            usage["cerberus"] = extra
        return self._writer.end(usage)

    def failed(self, error: CerberusError) -> bytes:
        """The end of an answer that broke, also before its first event: Codex reads no `error`."""
        return self._writer.fail(error)

    def _take(self, block: bytes) -> bytes:
        data = sse.data_of(block)
        if data is None:
            return block + b"\n\n"  # a comment: someone's keep-alive
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        chunk = chat_events.read(data)
        return b"" if chunk is None else self._tell(chunk)

    def _tell(self, chunk: Chunk) -> bytes:
        if bytes(chunk.error) != b"null":
            raise UpstreamError(bytes(chunk.error))
        if is_something(chunk.timings):
            self._facts.take_timings(chunk.timings)
        if is_something(chunk.usage):
            self._facts.take_usage(chunk.usage)
            usage = value_of(chunk.usage)
            if isinstance(usage, Mapping):
                self._usage = usage
        out = [self._writer.begin()]
        out += [self._choice(choice) for choice in chunk.choices or [] if choice.index == 0]
        return b"".join(out)

    def _choice(self, choice: Choice) -> bytes:
        out: list[bytes] = []
        delta = choice.delta
        if delta is not None and not self.finished:
            thoughts = text_of(delta.reasoning_content) or text_of(delta.reasoning)
            if thoughts:
                out.append(self._writer.reasoning(thoughts))
            text = text_of(delta.content)
            if text:
                logprobs = value_of(choice.logprobs) if is_something(choice.logprobs) else None
                known = logprobs if isinstance(logprobs, Mapping) else None
                out.append(self._writer.text(text, known))
            refusal = text_of(delta.refusal)
            if refusal:
                out.append(self._writer.refusal(refusal))
            calls = value_of(delta.tool_calls) if is_something(delta.tool_calls) else None
            for call in calls if isinstance(calls, list) else []:
                if isinstance(call, Mapping):
                    out.append(self._writer.call_delta({**call, "whole": False}))
            if thoughts or text or refusal or calls:
                self._meter()
        if choice.finish_reason:
            self.finished = True
            out.append(self._writer.finish(choice.finish_reason))
        return b"".join(out)

    def _meter(self) -> None:
        now = self._now()
        if self._facts.first_at is None:
            self._facts.first_at = now
        self._facts.last_at = now
        self._facts.pieces += 1
