"""A Messages stream told as a Chat Completions stream, and metered. Pure.

Ends in one of two ways, as OpenAIStream does. A text delta is one decode, and its
JSON string goes out as the bytes that came.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import DONE, UpstreamError

from .chat_events import NULL, decoded, json_of, text_of, value_of
from .chat_over_messages import Asked, finish_of, is_signed, usage_of
from .check import as_json
from .eventwise import Eventwise

MAX_CALLS = 4096


class _Delta(msgspec.Struct):
    type: str = ""
    text: Raw = NULL
    thinking: Raw = NULL
    partial_json: Raw = NULL
    signature: Raw = NULL
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: Raw = NULL
    message: Raw = NULL
    usage: Raw = NULL
    error: Raw = NULL


_decode = msgspec.json.Decoder(_Event).decode
_encode = msgspec.json.Encoder().encode
_TEXT = b'{"content":'
_THOUGHT = b'{"reasoning_content":'


class _Block:
    """A content block that is being told."""

    __slots__ = ("call", "fields", "sent", "thinking")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields
        self.call = -1
        """The index of its tool call."""
        self.sent = False
        """A piece of the call's arguments was told."""
        self.thinking: list[str] = []


class ChatStream(Eventwise):
    """The interface of `OpenAIStream`, from a backend that speaks Messages."""

    def __init__(self, facts: Facts, asked: Asked, *, now: Callable[[], float]) -> None:
        super().__init__()
        self._facts = facts
        self._asked = asked
        self._now = now
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._begun = False
        self._head = (
            f'data: {{"id":{as_json(asked.id)},"object":"chat.completion.chunk",'
            f'"created":{asked.created},"model":{as_json(asked.model)},'
            '"choices":[{"index":0,"delta":'
        ).encode()
        self._quick_pieces = 0
        self.finished = False
        """The model has told why it ended."""

    def quick(self, chunk: bytes) -> bytes | None:
        """What to send on if `chunk` is whole events of text that goes on.

        Tell `passed` once it is sent. None: nothing has happened, `feed` it.
        """
        texts = self.texts(chunk)
        return None if texts is None else b"".join([self._chunk(_TEXT + t + b"}") for t in texts])

    def texts(self, chunk: bytes) -> list[bytes] | None:
        """What `quick` tells, as JSON strings."""
        if self.finished or self._facts.first_at is None or not self._splitter.is_whole(chunk):
            return None
        texts = []
        for block in sse.blocks(chunk):
            event = _event_of(block)
            if event is None or event.type != "content_block_delta" or event.delta is None:
                return None
            text = text_of(event.delta.text)
            if event.delta.type != "text_delta" or not text:
                return None
            texts.append(text)
        self._quick_pieces = len(texts)
        return texts

    def passed(self) -> None:
        """The events of `quick` were sent."""
        self._facts.pieces += self._quick_pieces
        self._facts.last_at = self._now()

    def tail(self, extra: dict[str, Any]) -> bytes:
        """The end of a good answer: the usage chunk if asked for, then `[DONE]`.

        `extra` is what stands in `usage.cerberus`.
        """
        if not self._asked.wants_usage:
            return DONE
        usage = usage_of(self._usage)
        if usage["completion_tokens"] is None:
            usage["completion_tokens"] = self._facts.tokens
        fields = {
            "id": self._asked.id,
            "object": "chat.completion.chunk",
            "created": self._asked.created,
            "model": self._asked.model,
            "choices": [],
            "usage": {**usage, "cerberus": extra},
        }
        return b"data: " + _encode(fields) + b"\n\n" + DONE

    def _take(self, block: bytes) -> bytes:
        if sse.data_of(block) is None:
            return block + b"\n\n" if block.startswith(b":") else b""
        event = _event_of(block)
        if event is None:
            return b""
        if event.type == "error":
            told = bytes(event.error)
            raise UpstreamError(b'"It told no reason"' if told == b"null" else told)
        if event.type == "message_start":
            message = value_of(event.message)
            if isinstance(message, Mapping):
                self._take_usage(message.get("usage"))
            return self._begin()
        if event.type == "content_block_start":
            return self._start(event)
        if event.type == "content_block_delta" and event.delta is not None:
            return self._go_on(event.index, event.delta)
        if event.type == "content_block_stop":
            return self._stop(event.index)
        if event.type == "message_delta":
            self._take_usage(value_of(event.usage))
            reason = None if event.delta is None else event.delta.stop_reason
            return self._finish(reason)
        if event.type == "message_stop":
            self.done = True
            return b"" if self.finished else self._finish("end_turn")
        return b": ping\n\n" if event.type == "ping" else b""

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._chunk(b'{"role":"assistant","content":""}')

    def _start(self, event: _Event) -> bytes:
        fields = value_of(event.content_block)
        if not isinstance(fields, Mapping) or self.finished:
            return b""
        block = self._blocks[event.index] = _Block(fields)
        out = self._begin()
        kind = fields.get("type")
        if kind == "tool_use":
            block.call = self._calls
            self._calls += 1
            if self._calls > MAX_CALLS:
                raise UpstreamError(b'"The answer has more tool calls than can be"')
            self._meter()
            id, name = fields.get("id"), fields.get("name")
            return out + self._call_chunk(
                block,
                id=id if isinstance(id, str) and id else f"call_{self._asked.id}_{block.call}",
                type="function",
                function={"name": name if isinstance(name, str) else "", "arguments": ""},
            )
        if kind == "text" and isinstance(fields.get("text"), str) and fields["text"]:
            return out + self._say(_TEXT, as_json(fields["text"]).encode())
        if kind == "thinking" and isinstance(fields.get("thinking"), str) and fields["thinking"]:
            return out + self._think(block, as_json(fields["thinking"]).encode())
        return out

    def _go_on(self, index: int, delta: _Delta) -> bytes:
        if self.finished:
            return b""
        block = self._blocks.get(index)
        if delta.type == "text_delta":
            text = text_of(delta.text)
            return self._begin() + self._say(_TEXT, text) if text else b""
        if delta.type == "thinking_delta":
            text = text_of(delta.thinking)
            return self._begin() + self._think(block, text) if text else b""
        if block is None:
            return b""
        if delta.type == "signature_delta":
            block.fields = {**block.fields, "signature": value_of(delta.signature)}
        elif delta.type == "input_json_delta" and block.call >= 0:
            text = text_of(delta.partial_json)
            if text:
                block.sent = True
                self._meter()
                return self._call_chunk(block, function={"arguments": Raw(text)})
        return b""

    def _stop(self, index: int) -> bytes:
        block = self._blocks.pop(index, None)
        if block is None or self.finished:
            return b""
        if block.call >= 0 and not block.sent:
            # Told whole at its start, or without any arguments.
            return self._call_chunk(
                block, function={"arguments": json_of(block.fields.get("input") or {}).decode()}
            )
        kind = block.fields.get("type")
        if kind in ("thinking", "redacted_thinking") and is_signed(block.fields):
            fields = dict(block.fields)
            if kind == "thinking":
                fields["thinking"] = "".join(block.thinking)
            return self._chunk(json_of({"thinking_blocks": [fields]}))
        return b""

    def _finish(self, reason: Any) -> bytes:
        if self.finished or reason is None:
            return b""
        # A call whose block never ended was cut off, and its arguments stay half.
        self.finished = True
        reason = finish_of(reason, self._calls > 0)
        return self._begin() + self._chunk(b"{}", f'"{reason}"'.encode())

    def _say(self, member: bytes, raw: bytes) -> bytes:
        self._meter()
        return self._chunk(member + raw + b"}")

    def _think(self, block: _Block | None, raw: bytes) -> bytes:
        if block is not None:
            block.thinking.append(value_of(Raw(raw)) or "")
        return self._say(_THOUGHT, raw)

    def _call_chunk(self, block: _Block, **fields: Any) -> bytes:
        return self._chunk(_encode({"tool_calls": [{"index": block.call, **fields}]}))

    def _chunk(self, delta: bytes, finish: bytes = b"null") -> bytes:
        return self._head + delta + b',"logprobs":null,"finish_reason":' + finish + b"}]}\n\n"

    def _take_usage(self, told: Any) -> None:
        """Counts of the start and of the end; a 0 at the end is no better knowledge."""
        if not isinstance(told, Mapping):
            return
        self._usage.update(
            {
                key: value
                for key, value in told.items()
                if isinstance(value, int) and (value or key not in self._usage)
            }
        )
        self._facts.take_usage(_encode(usage_of(self._usage)))

    def _meter(self) -> None:
        now = self._now()
        if self._facts.first_at is None:
            self._facts.first_at = now
        self._facts.last_at = now
        self._facts.pieces += 1


def _event_of(block: bytes) -> _Event | None:
    name, _, rest = block.partition(b"\n")
    if name.startswith(b"event: ") and rest.startswith(b"data: ") and b"\n" not in rest:
        data: bytes | None = rest[6:]  # the usual framing
    else:
        data = sse.data_of(block)
    return None if data is None else decoded(_decode, data)
