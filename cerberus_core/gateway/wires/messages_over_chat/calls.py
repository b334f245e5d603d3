"""Which call a piece of a streamed tool call belongs to. Pure.

OpenAI numbers the calls and names each once. Others leave the number out, give every
call the number 0, or send each call whole; what they have in common is that a new id
is a new call.
"""

from typing import Any

import attrs

from cerberus_core.gateway.stream import UpstreamError

from .words import arguments_of, input_of

MAX_CALLS = 1024
"""Tool calls of one answer."""


@attrs.define(eq=False)
class Call:
    """One call in the making."""

    number: int
    """Among the calls of the answer."""
    index: int | None
    id: str | None
    name: str = ""
    block: int | None = None
    """The content block that it is, once that has begun."""
    closed: bool = False
    pieces: list[str] = attrs.field(factory=list)
    """Of its arguments."""
    sent: int = 0
    """Pieces that the client has."""

    @property
    def complete(self) -> bool:
        """Its arguments are an object by now."""
        return input_of("".join(self.pieces)) is not None and any(self.pieces)


class Calls:
    """Sorts the pieces by call."""

    def __init__(self) -> None:
        self.all: list[Call] = []

    def take(self, piece: Any) -> Call | None:
        """The call that `piece` (an item of `delta.tool_calls`) belongs to, with it added.

        Raises `UpstreamError` where there are too many.
        """
        if not isinstance(piece, dict):
            return None
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        name, id, index = function.get("name"), piece.get("id"), piece.get("index")
        name = name if isinstance(name, str) else ""
        id = id if isinstance(id, str) and id else None
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        call = self._known(id, index, name)
        if call is None:
            call = self._added(Call(len(self.all), index, id))
        call.name = call.name or name
        call.id = call.id or id
        arguments = arguments_of(function.get("arguments"))
        if arguments:
            call.pieces.append(arguments)
        return call

    def _added(self, call: Call) -> Call:
        if len(self.all) == MAX_CALLS:
            raise UpstreamError(b'"it made more than %d tool calls"' % MAX_CALLS)
        self.all.append(call)
        return call

    def _known(self, id: str | None, index: int | None, name: str) -> Call | None:
        if id is not None:
            same = next((call for call in reversed(self.all) if call.id == id), None)
            if same is not None:
                return same
        if index is None:
            last = self.all[-1] if self.all else None
        else:
            last = next((call for call in reversed(self.all) if call.index == index), None)
        if last is None or (id is not None and last.id is not None):
            return None
        # Without ids, a name after whole arguments begins another call, and so does
        # another name without a number.
        again = name and last.name and (last.complete or (index is None and name != last.name))
        return None if again else last
