"""A conversation put together for Chat Completions, in the order that strict templates want. Pure.

* One system message, the first. Those that come later become marked text of the
  user in their place: moved to the front they would change what engines have cached.
* Messages of one role in a row are one message.
* A tool's images follow its turn's results as a message of the user: a tool's
  message carries text alone. One without text says so: some models stop at an empty one.
"""

from typing import Any

NO_OUTPUT = "(no output)"
Content = str | list[dict[str, Any]]
"""Text, or parts as Chat Completions has them."""


class Conversation:
    """`messages` once everything was told."""

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._images: list[dict[str, Any]] = []
        self._reasoning: list[str] = []

    @property
    def messages(self) -> list[dict[str, Any]]:
        self._settle()
        return self._messages

    def system(self, content: Content) -> None:
        if not content:
            return
        last = self._messages[-1] if self._messages else None
        if last is None:
            self._messages.append({"role": "system", "content": content})
        elif last["role"] == "system":
            last["content"] = joined(last["content"], content)
        else:
            opened = joined("<system-reminder>", content, "\n")
            self.user(joined(opened, "</system-reminder>", "\n"))

    def user(self, content: Content) -> None:
        if not content:
            return
        self._settle()
        last = self._messages[-1] if self._messages else None
        if last is not None and last["role"] == "user":
            last["content"] = joined(last["content"], content)
        else:
            self._messages.append({"role": "user", "content": content})

    def reasoning(self, text: str) -> None:
        """Thoughts before what the assistant says or calls next."""
        if text:
            self._reasoning.append(text)

    def assistant(self, text: str) -> None:
        message = self._assistant()
        if text:
            message["content"] = joined(message["content"] or "", text)

    def call(self, id: str, name: str, arguments: str) -> None:
        self._assistant().setdefault("tool_calls", []).append(
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        )

    def result(self, id: str, content: Content) -> None:
        """What a call gave; parts that aren't text come after the turn's results."""
        if isinstance(content, str):
            text = content
        else:
            text = "\n".join(part["text"] for part in content if part["type"] == "text")
            rest = [part for part in content if part["type"] != "text"]
            if rest:
                text = text or "(see below)"
                self._images += [{"type": "text", "text": f"From the tool call {id}:"}, *rest]
        self._reasoning.clear()
        self._messages.append({"role": "tool", "tool_call_id": id, "content": text or NO_OUTPUT})

    def _assistant(self) -> dict[str, Any]:
        self._settle()
        last = self._messages[-1] if self._messages else None
        if last is None or last["role"] != "assistant":
            last = {"role": "assistant", "content": None}
            self._messages.append(last)
        if self._reasoning:
            text = "\n\n".join(self._reasoning)
            self._reasoning.clear()
            known = last.get("reasoning_content")
            last["reasoning_content"] = f"{known}\n\n{text}" if known else text
        return last

    def _settle(self) -> None:
        if self._images:
            self._messages.append({"role": "user", "content": self._images})
            self._images = []


def joined(first: Content, second: Content, between: str = "\n\n") -> Content:
    """One content of two; text stays a plain string while all of it is text."""
    if isinstance(first, str) and isinstance(second, str):
        return first + between + second if first and second else first + second
    return _parts(first) + _parts(second)


def _parts(content: Content) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content
