"""An OpenAI stream on its way through: forwarded, metered, its tail set right. Pure.

Bytes pass as they came until something in them needs a hand: the first token
(for the meter), the finish, usage, an error, `[DONE]`, or the model's public
name. What the client gets ends in one of two ways: finish, usage if it asked,
`[DONE]`; or an error event and no `[DONE]`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from . import sse
from .facts import Facts

DONE = b"data: [DONE]\n\n"


_NULL = Raw(b"null")


class _Choice(msgspec.Struct):
    index: int = 0
    delta: dict[str, Raw] | None = None
    text: Raw = _NULL
    finish_reason: str | None = None


_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_choices = msgspec.json.Decoder(list[_Choice]).decode
_encode = msgspec.json.Encoder().encode
_CONTENT = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal", "audio")
_NOTHING = (b"null", b'""', b"[]", b"{}")


class UpstreamError(Exception):
    """The endpoint sent an error inside its stream; `payload` is its `error` value."""

    def __init__(self, payload: bytes) -> None:
        super().__init__(payload.decode(errors="replace"))
        self.payload = payload


class OpenAIStream:
    """One streamed answer of /v1/chat/completions or /v1/completions."""

    def __init__(
        self,
        facts: Facts,
        *,
        public_model: str | None,
        wants_usage: bool,
        now: Callable[[], float],
        several: bool = False,
    ) -> None:
        """`public_model`: the name to put in each event; None if it is there already.

        `several`: more than one choice was asked for; each must tell its finish.
        """
        self._several = several
        self._facts = facts
        self._model = None if public_model is None else Raw(_encode(public_model))
        self._rename: tuple[bytes, bytes] | None = None
        self._wants_usage = wants_usage
        self._now = now
        self._splitter = sse.Splitter()
        self._usage_fields: dict[str, Raw] | None = None
        self._last_fields: dict[str, Raw] = {}
        self._open_choices: set[int] = set()
        self._finished_choices: set[int] = set()
        self.done = False
        """`[DONE]` has come: nothing after it matters."""

    def feed(self, chunk: bytes) -> bytes:
        """What to send on for `chunk`. Raises `UpstreamError`, `sse.TooLong`.

        On an error, whatever stood before it in the chunk is in `self.before_error`.
        """
        events = self._splitter.feed(chunk)
        if not events:
            return b""
        out = self._untouched(events)
        if out is None:
            return self._edit(events)
        self.passed()
        return out

    def quick(self, chunk: bytes) -> bytes | None:
        """What to send on if `chunk` is whole events that need no hand.

        Tell `passed` once it is sent. None: nothing has happened, `feed` it.
        """
        return self._untouched(chunk) if self._splitter.is_whole(chunk) else None

    def passed(self) -> None:
        """Meter the events that were sent on untouched."""
        self._facts.pieces += self._untouched_count
        self._facts.last_at = self._now()

    _untouched_count = 0

    def _untouched(self, events: bytes) -> bytes | None:
        """The events with the public name where that is all they need, else None."""
        count = events.count(b"data: ")
        # One `data: ` line and one empty line each: framed as every client reads it.
        if events.count(b"\n") != 2 * count or self._facts.first_at is None:
            return None
        if self._several or _needs_a_hand(events):
            return None
        if self._rename is not None:
            old, new = self._rename
            if events.count(old) != count:
                return None
            events = events.replace(old, new)
        elif self._model is not None:
            return None
        self._untouched_count = count
        return events

    @property
    def finished(self) -> bool:
        """Every choice that began has told its finish reason."""
        return bool(self._finished_choices) and self._open_choices <= self._finished_choices

    def tail(self, extra: dict[str, Any]) -> bytes:
        """The end of a good answer: the usage chunk if asked for, then `[DONE]`.

        `extra` is what stands in `usage.cerberus`.
        """
        if not self._wants_usage:
            return DONE
        return b"data: " + self._usage_chunk(extra) + b"\n\n" + DONE

    before_error = b""

    def _edit(self, events: bytes) -> bytes:
        out: list[bytes] = []
        for block in sse.blocks(events):
            if self.done:
                break
            data = sse.data_of(block)
            if data is None:
                out.append(block + b"\n\n")  # a comment: someone's keep-alive
            elif data.strip() == b"[DONE]":
                self.done = True
            else:
                try:
                    out.append(self._edit_event(block, data))
                except UpstreamError:
                    self.before_error = b"".join(out)
                    raise
        return b"".join(out)

    def _edit_event(self, block: bytes, data: bytes) -> bytes:
        try:
            fields = _decode_fields(data)
        except (msgspec.MsgspecError, RecursionError):
            return block + b"\n\n"  # not ours to judge
        error = fields.get("error")
        if error is not None and bytes(error) != b"null":
            raise UpstreamError(bytes(error))
        changed = self._model is not None
        if self._model is not None and "model" in fields:
            self._learn_rename(data, bytes(fields["model"]))
            fields["model"] = self._model
        choices = self._choices(fields)
        timings = fields.get("timings")
        if timings is not None:
            self._facts.take_timings(timings)
        usage = fields.get("usage")
        if usage is not None:
            if bytes(usage) != b"null":
                self._facts.take_usage(usage)
                self._usage_fields = dict(fields)
                if not choices:
                    return b""  # the usage chunk: ours comes at the end
            del fields["usage"]
            changed = True
        self._last_fields = fields
        if changed or block != b"data: " + data:
            return b"data: " + _encode(fields) + b"\n\n"
        return block + b"\n\n"

    def _learn_rename(self, data: bytes, name: bytes) -> None:
        """How this engine writes its model's name, so that later events need only a replacement.

        Inside a JSON string the quotes would be escaped, so the bytes mean the member.
        """
        for old in (b'"model":' + name, b'"model": ' + name):
            if data.count(old) == 1:
                self._rename = (old, b'"model":' + bytes(self._model or b""))

    def _choices(self, fields: dict[str, Raw]) -> list[_Choice]:
        raw = fields.get("choices")
        if raw is None or bytes(raw) == b"null":
            return []
        try:
            choices = _decode_choices(raw)
        except (msgspec.MsgspecError, RecursionError):
            return [_Choice()]
        for choice in choices:
            self._open_choices.add(choice.index)
            if choice.finish_reason:
                self._finished_choices.add(choice.index)
            if _has_content(choice):
                now = self._now()
                if self._facts.first_at is None:
                    self._facts.first_at = now
                self._facts.last_at = now
                self._facts.pieces += 1
        return choices

    def _usage_chunk(self, extra: dict[str, Any]) -> bytes:
        source = self._usage_fields if self._usage_fields is not None else self._last_fields
        fields: dict[str, Any] = dict(source)
        usage = _object(fields.get("usage"))
        if usage is None:
            # The engine told nothing: the pieces are counted, the prompt is unknown.
            usage = {
                "prompt_tokens": None,
                "completion_tokens": self._facts.tokens,
                "total_tokens": None,
            }
        usage["cerberus"] = extra
        fields["choices"] = []
        fields["usage"] = usage
        return _encode(fields)


def _needs_a_hand(events: bytes) -> bool:
    # Quotes inside JSON strings are escaped, so these bytes are never content.
    return (
        b'"usage"' in events
        or b"[DONE]" in events
        or _tells_a_finish(events)
        or b'"error"' in events
        or b'"timings"' in events
    )


def _tells_a_finish(events: bytes) -> bool:
    nulls = events.count(b'finish_reason":null') + events.count(b'finish_reason": null')
    return events.count(b"finish_reason") != nulls


def _object(raw: Raw | None) -> dict[str, Any] | None:
    if raw is None:
        return None
    try:
        value: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return value


def _has_content(choice: _Choice) -> bool:
    if bytes(choice.text) not in _NOTHING:
        return True
    delta = choice.delta
    if not delta:
        return False
    return any(key in delta and bytes(delta[key]) not in _NOTHING for key in _CONTENT)
