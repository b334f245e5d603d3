"""A Messages stream on its way through: forwarded, metered, its end set right. Pure.

For backends that speak Messages themselves. Bytes pass as they came, but for the model's
name in `message_start` and for the last `message_delta`, which is held back for the
figures that are put into its usage.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from cerberus_core.gateway import sse
from cerberus_core.gateway.facts import Facts
from cerberus_core.gateway.stream import UpstreamError

from .eventwise import Eventwise
from .messages import take_usage

_encode = msgspec.json.Encoder().encode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode

_DELTA = b"event: content_block_delta\ndata: {"
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

_Fields = dict[str, Raw]
_NULL = Raw(b"null")


class MessagesStream(Eventwise):
    """One streamed answer of /v1/messages. The interface is `OpenAIStream`'s."""

    def __init__(self, facts: Facts, *, public_model: str | None, now: Callable[[], float]) -> None:
        """`public_model`: the name to put in `message_start`; None if it is there already."""
        super().__init__()
        self._facts = facts
        self._model = public_model
        self._now = now
        self._last_delta: _Fields | None = None
        self._told_stop = False

    def feed(self, chunk: bytes) -> bytes:
        """What to send on for `chunk`. Raises `UpstreamError`, `sse.TooLong`.

        On an error, whatever stood before it in the chunk is in `self.before_error`.
        """
        events = self._splitter.feed(chunk)
        if not events:
            return b""
        if self._count(events):
            self.passed()
            return events
        return self._each(events)

    def quick(self, chunk: bytes) -> bytes | None:
        """What to send on if `chunk` is whole events that need no hand.

        Tell `passed` once it is sent. None: nothing has happened, `feed` it.
        """
        return chunk if self._splitter.is_whole(chunk) and self._count(chunk) else None

    def passed(self) -> None:
        """Meter the events that were sent on untouched."""
        self._facts.pieces += self._untouched_count
        self._facts.last_at = self._now()

    _untouched_count = 0

    def _count(self, events: bytes) -> int:
        """How many events there are if all are deltas of a block, else 0."""
        count = events.count(_DELTA)
        # Three line ends each: a line end inside a JSON string is escaped.
        if events.count(b"\n") != 3 * count or self._facts.first_at is None:
            return 0
        self._untouched_count = 0 if self._last_delta is not None or self.done else count
        return self._untouched_count

    @property
    def finished(self) -> bool:
        """The backend has told why the answer ended."""
        return self._told_stop or self.done

    def tail(self, extra: dict[str, Any]) -> bytes:
        """The end of a good answer. `extra` is what stands in `usage.cerberus`."""
        if self._last_delta is None:
            return STOP
        fields: dict[str, Any] = dict(self._last_delta)
        usage = _members(self._last_delta.get("usage"))
        fields["usage"] = {**usage, "cerberus": extra}
        return _event("message_delta", _encode(fields)) + STOP

    def _take(self, block: bytes) -> bytes:
        """What to send for one event. Raises `UpstreamError`."""
        data = sse.data_of(block)
        if data is None:
            return block + b"\n\n"  # a comment: someone's keep-alive
        if data.strip() == b"[DONE]":
            return b""
        data = data.replace(b"\n", b" ")  # several `data:` lines
        try:
            fields = _decode_fields(data)
            kind = msgspec.json.decode(fields.get("type", _NULL), type=str)
        except (msgspec.MsgspecError, RecursionError):
            return block + b"\n\n"  # not ours to judge
        if kind == "error":
            raise UpstreamError(bytes(fields.get("error", _NULL)))
        if kind == "message_stop":
            self.done = True
            return b""
        if kind == "message_delta":
            earlier = self._flushed()
            self._take_delta(fields)
            return earlier
        if kind == "message_start":
            return self._take_start(fields)
        if kind == "content_block_delta":
            self._meter()
        plain = block == b"event: %s\ndata: %s" % (kind.encode(), data)
        out = block + b"\n\n" if plain else _event(kind, data)
        return out if kind == "ping" else self._flushed() + out

    def _take_start(self, fields: _Fields) -> bytes:
        message = _members(fields.get("message"))
        if "usage" in message:
            take_usage(message["usage"], self._facts)
        if self._model is not None:
            message["model"] = Raw(_encode(self._model))
            fields["message"] = Raw(_encode(message))
        return _event("message_start", _encode(fields))

    def _take_delta(self, fields: _Fields) -> None:
        self._last_delta = fields
        if "usage" in fields:
            take_usage(fields["usage"], self._facts)
        reason = _members(fields.get("delta")).get("stop_reason", _NULL)
        self._told_stop = self._told_stop or bytes(reason) != b"null"

    def _flushed(self) -> bytes:
        """A `message_delta` that was not the last."""
        fields, self._last_delta = self._last_delta, None
        return b"" if fields is None else _event("message_delta", _encode(fields))

    def _meter(self) -> None:
        now = self._now()
        if self._facts.first_at is None:
            self._facts.first_at = now
        self._facts.last_at = now
        self._facts.pieces += 1


def _event(kind: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def _members(raw: Raw | None) -> _Fields:
    """The members of an object; none of anything else."""
    try:
        return {} if raw is None else _decode_fields(raw)
    except (msgspec.MsgspecError, RecursionError):
        return {}
