"""Tool calls that a model writes into its text, for models that know no better. Pure.

A call is JSON, bare or in a fence or in `<tool_call>` tags, that names a tool which was
offered:

    {"name": "read", "arguments": {"path": "a.txt"}}

It must begin a line, and after it nothing may come but further calls: JSON that is
followed by words, or stands in a code block of another language, explains something and
is not run. `parameters` and `input` do for `arguments`, and OpenAI's
`{"function": {…}}`, `{"tool_calls": […]}` and lists are understood.
"""

import json
import re
from collections.abc import Collection
from typing import Any

import attrs
import msgspec

MAX_HELD = 1 << 20
"""Characters that are held back before they are text after all."""
MAX_HEAD = 400
"""Characters within which JSON must show that it may be a call."""

_encode = msgspec.json.Encoder().encode

_ARGUMENTS = ("arguments", "parameters", "input")
_KEYS = ("name", "function", "tool_calls", "type", "id", *_ARGUMENTS)
_LANGUAGES = ("", "json", "tool_call", "tool_calls", "tool_use")
_TAG, _TAG_END, _FENCE = "<tool_call>", "</tool_call>", "```"


@attrs.frozen
class WrittenCall:
    name: str
    arguments: str
    """A JSON object."""


def read(text: str, tools: Collection[str]) -> tuple[str, list[WrittenCall]]:
    """(the text before the calls, the calls); all of the text where there are none."""
    reader = Reader(tools)
    shown = reader.feed(text)
    held, calls = reader.end()
    return (shown.rstrip() if calls else shown + held), calls


class Reader:
    """For a text that comes in pieces: `feed` them, then `end`."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._held: list[str] = []
        self._size = 0
        self._maybe: _Maybe | None = None
        self._line_begins = True
        self._in_code = False
        self._ticks = 0

    def feed(self, text: str) -> str:
        """What can be shown: all that can't become a call any more."""
        shown: list[str] = []
        at = 0
        while at < len(text):
            begin = at
            if self._maybe is None:
                at = self._plain(text, at)
                shown.append(text[begin:at])
                continue
            good, at = self._maybe.take(text, at)
            self._held.append(text[begin:at])
            self._size += at - begin
            if not good or self._size > MAX_HELD:
                shown.append(self.release())
        return "".join(shown)

    def end(self) -> tuple[str, list[WrittenCall]]:
        """(text that was held back for nothing, the calls). One of them is empty."""
        if self._maybe is not None and self._maybe.may_end:
            calls = self._maybe.calls
            self.release()
            return "", calls
        return self.release(), []

    def release(self) -> str:
        """What is held back, as text."""
        text = "".join(self._held)
        if self._maybe is not None:
            self._in_code = self._maybe.in_fence
            self._line_begins = text.rstrip(" \t").endswith("\n")
        self._maybe, self._size, self._ticks = None, 0, 0
        self._held.clear()
        return text

    def _plain(self, text: str, at: int) -> int:
        """Where the plain text ends that begins at `at`."""
        if not self._line_begins:
            end = text.find("\n", at)
            if end < 0:
                return len(text)
            self._line_begins, self._ticks = True, 0
            return end + 1
        char = text[at]
        if char.isspace():
            return at + 1
        if self._in_code:
            self._ticks = self._ticks + 1 if char == "`" else 0
            self._in_code = self._ticks < len(_FENCE)
            self._line_begins = 0 < self._ticks < len(_FENCE)
            return at + 1
        if char in "{[`<":
            self._maybe = _Maybe(self._tools)
            return at
        self._line_begins = False
        return at


_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\]]')


class _Value:
    """Finds the end of a JSON value that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._string = False
        self._escaped = False

    def take(self, text: str, at: int) -> int | None:
        """Where the value ends; None if not in this text."""
        while at < len(text):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_IN_STRING if self._string else _OUTSIDE).search(text, at)
            if found is None:
                return None
            char, at = found.group(), found.end()
            if char == '"':
                self._string = not self._string
            elif char == "\\":
                self._escaped = True
            else:
                self._depth += 1 if char in "{[" else -1
                if self._depth <= 0:
                    return at
        return None


class _Maybe:
    """What may yet be one call or several. Steps through opener, value and closer."""

    def __init__(self, tools: Collection[str]) -> None:
        self.calls: list[WrittenCall] = []
        self._tools = tools
        self._step = self._between
        self._opener = ""
        self._closer = ""
        self._closed = ""
        self._whole = False
        self._pieces: list[str] = []
        self._value = _Value()

    @property
    def in_fence(self) -> bool:
        fence = self._opener.startswith(_FENCE)
        return fence and (self._closer == _FENCE or self._step == self._open)

    @property
    def may_end(self) -> bool:
        """The text may end here, and there are calls. A closer may be missing then."""
        return bool(self.calls) and self._whole

    def take(self, text: str, at: int) -> tuple[bool, int]:
        """(whether it may still be calls, how far `text` was looked at)."""
        while at < len(text):
            next_at = self._step(text, at)
            if next_at is None:
                return False, at
            at = next_at
        return True, at

    # The steps: each takes some text and says how far, or None where it can't be a call.

    def _between(self, text: str, at: int) -> int | None:
        """Before a call, or after one."""
        char = text[at]
        if char.isspace():
            return at + 1
        if char in "`<":
            self._opener, self._step = "", self._open
            return at
        return self._begin_value(text, at)

    def _open(self, text: str, at: int) -> int | None:
        self._whole = False
        self._opener += text[at]
        if _TAG.startswith(self._opener):
            if self._opener == _TAG:
                self._closer, self._step = _TAG_END, self._inside
            return at + 1
        if self.calls and _TAG_END.startswith(self._opener):
            if self._opener == _TAG_END:  # its opening tag was left out
                self._opener, self._whole, self._step = "", True, self._between
            return at + 1
        if _FENCE.startswith(self._opener[:3]):
            language = self._opener[3:].strip()
            if self._opener.endswith("\n") and language in _LANGUAGES:
                self._closer, self._step = _FENCE, self._inside
                return at + 1
            if any(known.startswith(language) for known in _LANGUAGES) and len(self._opener) < 40:
                return at + 1 if not self._opener.endswith("\n") else None
        self._opener = self._opener[:-1]
        return None

    def _inside(self, text: str, at: int) -> int | None:
        """In a fence or tags, before a value or after one."""
        char = text[at]
        if char.isspace():
            return at + 1
        if self._whole and char == self._closer[0]:
            self._closed, self._step = "", self._close
            return at
        return self._begin_value(text, at)

    def _close(self, text: str, at: int) -> int | None:
        self._closed += text[at]
        if not self._closer.startswith(self._closed):
            return None
        if self._closed == self._closer:
            self._opener = self._closer = ""
            self._step = self._between
        return at + 1

    def _begin_value(self, text: str, at: int) -> int | None:
        if text[at] not in "{[":
            return None
        self._whole, self._pieces, self._value = False, [], _Value()
        self._step = self._head
        return at

    def _head(self, text: str, at: int) -> int | None:
        """The first key tells most JSON that is no call."""
        self._pieces.append(text[at])
        verdict = _may_be_call("".join(self._pieces), self._tools)
        if verdict is False or len(self._pieces) > MAX_HEAD:
            return None
        if verdict:
            self._value.take("".join(self._pieces), 0)
            self._step = self._body
        return at + 1

    def _body(self, text: str, at: int) -> int | None:
        end = self._value.take(text, at)
        self._pieces.append(text[at:end])
        if end is None:
            return len(text)
        calls = _calls_in("".join(self._pieces), self._tools)
        if not calls:
            return None
        self.calls += calls
        self._whole = True
        self._step = self._inside if self._closer else self._between
        return end


def _may_be_call(head: str, tools: Collection[str]) -> bool | None:
    """Whether JSON that begins so may be a call; None where more must be seen."""
    rest = head.lstrip()
    if rest.startswith("["):
        rest = rest[1:].lstrip()
    for sign in ("{", '"'):
        if not rest.startswith(sign):
            return False if rest else None
        rest = rest[1:] if sign == '"' else rest[1:].lstrip()
    key, quote, rest = rest.partition('"')
    if not quote:
        return None if any(known.startswith(key) for known in _KEYS) else False
    rest = rest.lstrip()
    if key not in _KEYS or rest[:1] not in ("", ":"):
        return False
    rest = rest[1:].lstrip()
    if not rest:
        return None
    if key != "name":
        return True
    name, quote, _ = rest[1:].partition('"')
    if quote or rest[0] != '"':
        return rest[0] == '"' and name in tools
    return None if any(tool.startswith(name) for tool in tools) else False


def _calls_in(text: str, tools: Collection[str]) -> list[WrittenCall]:
    """The calls that a JSON value is; none if anything in it is no call."""
    try:
        # Models write line ends into strings as they are.
        value = json.loads(text, strict=False)
        return _calls_of(value, tools, nested=True)
    except (ValueError, TypeError, RecursionError):
        return []


def _calls_of(value: Any, tools: Collection[str], *, nested: bool) -> list[WrittenCall]:
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list) and nested:
        value = value["tool_calls"]
    if isinstance(value, list) and nested:
        each = [_calls_of(item, tools, nested=False) for item in value]
        return [call for calls in each for call in calls] if all(each) else []
    if not isinstance(value, dict):
        return []
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = function if isinstance(function, str) else inner.get("name")
    key = next((key for key in _ARGUMENTS if key in inner), None)
    if not isinstance(name, str) or name not in tools or key is None:
        return []
    arguments = inner[key]
    if isinstance(arguments, str):
        arguments = json.loads(arguments, strict=False) if arguments.strip() else {}
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict):
        return []
    return [WrittenCall(name, _encode(arguments).decode())]
