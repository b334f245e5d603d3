"""A chat whose system messages all stand at the beginning, for templates that want it so. Pure.

Those at the beginning become one. A later one becomes marked text of the user in its
place: moved to the front it would change what engines have cached. It never stands
between calls and their results. All else in the messages stays as it is.
"""

from typing import Any

from .conversation import Content, joined

ROLES = ("system", "developer")


def system_first(messages: list[Any]) -> list[Any]:
    """The messages of a chat request; what is none stays for the engine to refuse."""
    out: list[Any] = []
    reminder: Content = ""
    for message in messages:
        if any(_is(message, role) for role in ROLES):
            content = message["content"]
            if not out:
                out.append({**message, "role": "system"})
            elif len(out) == 1 and _is(out[0], "system"):
                out[0] = {**out[0], "content": joined(out[0]["content"], content)}
            else:
                opened = joined("<system-reminder>", content, "\n")
                reminder = joined(reminder, joined(opened, "</system-reminder>", "\n"))
        elif not reminder or (isinstance(message, dict) and message.get("role") == "tool"):
            out.append(message)
        else:
            if _is(message, "user") and not _is(out[-1], "user"):
                out.append({**message, "content": joined(reminder, message["content"])})
            else:
                _remind(out, reminder)
                out.append(message)
            reminder = ""
    if reminder:
        _remind(out, reminder)
    return out


def _remind(out: list[Any], reminder: Content) -> None:
    if _is(out[-1], "user"):
        out[-1] = {**out[-1], "content": joined(out[-1]["content"], reminder)}
    else:
        out.append({"role": "user", "content": reminder})


def _is(message: Any, role: str) -> bool:
    """Whether it is of that role, and something can be added to what it says."""
    of_role = isinstance(message, dict) and message.get("role") == role
    return of_role and isinstance(message.get("content"), str | list)
