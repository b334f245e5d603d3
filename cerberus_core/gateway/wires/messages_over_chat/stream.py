"""A stream of chat chunks as the events of a Messages answer. Pure.

`message_start`, then blocks with their start, deltas and stop, then `message_delta` and
`message_stop`. One block ends before the next begins; only tool calls whose pieces come
mixed are open side by side, each under its own index.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError
from cerberus_core.gateway.wires.messages import KEEP_ALIVE

from .calls import Call, Calls
from .words import Asked, call_id, message_id, spoken, stop_of, string, usage_of

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


# An event that carries on a text and says nothing else fits these, and nothing more.


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: None = None
    tool_calls: tuple[()] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    index: int = 0
    finish_reason: None = None


class _TextChunk(msgspec.Struct, gc=False):
    choices: tuple[_Choice]
    usage: None = None
    error: None = None
    timings: None = None


_decode_text = msgspec.json.Decoder(_TextChunk).decode

_KINDS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
_EMPTY: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": ""},
    # Signatures prove to Anthropic who thought it; clients only want the field.
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}


class MessagesOverChat:
    """One streamed answer. The interface is `OpenAIStream`'s."""

    def __init__(self, facts: Facts, asked: Asked, *, now: Callable[[], float]) -> None:
        self._facts = facts
        self._asked = asked
        self._now = now
        self._splitter = sse.Splitter()
        self._out: list[bytes] = []
        self._id = message_id(asked)
        self._begun = False
        self._blocks = 0
        self._open = ""
        """The kind of block that takes text now: text, thinking, or "" for none."""
        self._open_index = 0
        self._prefix = b""
        """Of each delta of that block."""
        self._calls = Calls()
        self._finish: str | None = None
        self._matched: Any = None
        self._refused = False
        self.done = False
        """`[DONE]` has come: nothing after it matters."""

    before_error = b""

    def feed(self, chunk: bytes) -> bytes:
        """What to send for `chunk`. Raises `UpstreamError`, `sse.TooLong`.

        On an error, whatever stood before it in the chunk is in `self.before_error`.
        """
        events = self._splitter.feed(chunk)
        if not events:
            return b""
        out = self._texts(events)
        if out is not None:
            self.passed()
            return out
        for block in sse.blocks(events):
            data = sse.data_of(block)
            if self.done:
                break
            if data is None:
                self._out.append(KEEP_ALIVE)  # a comment: someone's keep-alive
            elif data.strip() == b"[DONE]":
                self.done = True
            else:
                try:
                    self._take(data)
                except UpstreamError:
                    self.before_error = self._written()
                    raise
        return self._written()

    def quick(self, chunk: bytes) -> bytes | None:
        """What to send if `chunk` is whole events that only carry on the open text.

        Tell `passed` once it is sent. None: nothing has happened, `feed` it.
        """
        return self._texts(chunk) if self._splitter.is_whole(chunk) else None

    def passed(self) -> None:
        """Meter the events that went the quick way."""
        self._facts.pieces += self._quick_count
        self._facts.last_at = self._now()

    _quick_count = 0

    @property
    def finished(self) -> bool:
        """The backend has told why the answer ended."""
        return self._finish is not None

    def tail(self, extra: dict[str, Any]) -> bytes:
        """The end of a good answer. `extra` is what stands in `usage.cerberus`."""
        self._begin()
        self._close_text()
        for call in self._calls.all:
            self._close_call(call)
        stop_reason, stop_sequence = stop_of(
            self._finish,
            self._matched,
            calls=any(call.block is not None for call in self._calls.all),
            refused=self._refused,
            asked=self._asked,
        )
        self._event(
            "message_delta",
            delta={"stop_reason": stop_reason, "stop_sequence": stop_sequence},
            usage={**usage_of(self._facts), "cerberus": extra},
        )
        self._event("message_stop")
        return self._written()

    # The quick way.

    def _texts(self, events: bytes) -> bytes | None:
        if not self._prefix or self.finished:
            return None
        out: list[bytes] = []
        for event in events[:-2].split(b"\n\n"):
            text = self._text(event)
            if text is None:
                return None
            out += (self._prefix, _encode(text), b"}}\n\n")
        self._quick_count = len(out) // 3
        return b"".join(out)

    def _text(self, event: bytes) -> str | None:
        """What the event adds to the open block; None if it has more to say."""
        if not event.startswith(b"data: ") or b"\n" in event:
            return None
        try:
            choice = _decode_text(event[6:]).choices[0]
        except (msgspec.MsgspecError, RecursionError):
            return None
        delta = choice.delta
        if choice.index:
            return None
        thinking = delta.reasoning_content or delta.reasoning
        if self._open == "text":
            return None if thinking else delta.content or None
        return None if delta.content else thinking or None

    # One event with anything in it.

    def _take(self, data: bytes) -> None:
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, RecursionError):
            return  # not ours to judge
        if not isinstance(event, dict):
            return
        if event.get("error") is not None:
            raise UpstreamError(_encode(event["error"]))
        self._begin()
        for key, take in (
            ("usage", self._facts.take_usage),
            ("timings", self._facts.take_timings),
        ):
            if event.get(key) is not None:
                take(_encode(event[key]))
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and not choice.get("index"):
                self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")  # a backend that answers whole after all
        if isinstance(delta, dict) and not self.finished and self._delta(delta):
            now = self._now()
            if self._facts.first_at is None:
                self._facts.first_at = now
            self._facts.last_at = now
            self._facts.pieces += 1
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._finish = reason
        if choice.get("stop_reason") is not None:
            self._matched = choice["stop_reason"]

    def _delta(self, delta: dict[str, Any]) -> bool:
        """Whether there was anything in it."""
        thought, text = spoken(delta.get("content"))
        thinking = (
            string(delta.get("reasoning_content")) or string(delta.get("reasoning")) or thought
        )
        refusal = string(delta.get("refusal"))
        pieces = delta.get("tool_calls")
        pieces = pieces if isinstance(pieces, list) else []
        if thinking:
            self._say("thinking", thinking)
        if refusal:
            self._refused = True
            self._say("text", refusal)
        if text:
            self._say("text", text)
        for piece in pieces:
            call = self._calls.take(piece)
            if call is not None:
                self._carry_on(call)
        return bool(thinking or refusal or text or pieces)

    # Blocks.

    def _say(self, kind: str, text: str) -> None:
        if self._open != kind:
            self._close_text()
            self._close_complete()
            self._open = kind
            self._open_index = self._start(_EMPTY[kind])
            name, member = _KINDS[kind]
            self._prefix = (
                b'event: content_block_delta\ndata: {"type":"content_block_delta","index":'
                b'%d,"delta":{"type":"%s","%s":'
                % (self._open_index, name.encode(), member.encode())
            )
        self._out += (self._prefix, _encode(text), b"}}\n\n")

    def _carry_on(self, call: Call) -> None:
        """Send what is new of a call."""
        if not call.name or call.closed:
            return
        if call.block is None:
            self._close_text()
            self._close_complete()
            id = call.id or call_id(None, self._id, call.number)
            call.block = self._start({"type": "tool_use", "id": id, "name": call.name, "input": {}})
        if call.sent < len(call.pieces):
            self._arguments(call.block, "".join(call.pieces[call.sent :]))
            call.sent = len(call.pieces)

    def _arguments(self, block: int, text: str) -> None:
        delta = {"type": "input_json_delta", "partial_json": text}
        self._event("content_block_delta", index=block, delta=delta)

    def _close_text(self) -> None:
        if self._open:
            self._event("content_block_stop", index=self._open_index)
            self._open, self._prefix = "", b""

    def _close_complete(self) -> None:
        for call in self._calls.all:
            if not call.closed and call.complete:
                self._close_call(call)

    def _close_call(self, call: Call) -> None:
        if call.block is None or call.closed:
            return
        if not any(call.pieces):
            self._arguments(call.block, "{}")
        self._event("content_block_stop", index=call.block)
        call.closed = True

    def _start(self, block: dict[str, Any]) -> int:
        index = self._blocks
        self._blocks += 1
        self._event("content_block_start", index=index, content_block=block)
        return index

    # Events.

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        message: dict[str, Any] = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._asked.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        self._event("message_start", message=message)

    def _event(self, kind: str, **fields: Any) -> None:
        data = _encode({"type": kind, **fields})
        self._out.append(b"event: %s\ndata: %s\n\n" % (kind.encode(), data))

    def _written(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out
