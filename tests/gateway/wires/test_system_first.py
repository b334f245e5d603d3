"""System messages of a chat put where strict templates want them. Pure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerberus_core.gateway.wires.system_first import system_first

NOTE = "<system-reminder>\nNow.\n</system-reminder>"


def system(content: Any = "Now.", role: str = "system") -> dict[str, Any]:
    return {"role": role, "content": content}


def user(content: Any = "?") -> dict[str, Any]:
    return {"role": "user", "content": content}


SAID = {"role": "assistant", "content": "!", "reasoning_content": "hm", "x": 1}
CALLS = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([user()], [user()]),
        ([system(), user(), SAID], [system(), user(), SAID]),
        ([system("A"), system("B", "developer"), user()], [system("A\n\nB"), user()]),
        ([system([{"type": "text", "text": "A"}]), system("B"), user()],
         [system([{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]), user()]),
        ([user(), SAID, system(), user("go")], [user(), SAID, user(f"{NOTE}\n\ngo")]),
        ([user(), system(), SAID], [user(f"?\n\n{NOTE}"), SAID]),
        ([user(), system(), user("go")], [user(f"?\n\n{NOTE}"), user("go")]),
        ([user(), SAID, system()], [user(), SAID, user(NOTE)]),
        ([user(), CALLS, system(), RESULT, SAID], [user(), CALLS, RESULT, user(NOTE), SAID]),
        ([user(), SAID, system(), system()], [user(), SAID, user(f"{NOTE}\n\n{NOTE}")]),
        ([user(), system([{"type": "text", "text": "Now."}])],
         [user([{"type": "text", "text": text} for text in
                ("?", "<system-reminder>", "Now.", "</system-reminder>")])]),
        ([user(), system(None)], [user(), system(None)]),
        ([1, system()], [1, user(NOTE)]),
        ([], []),
    ],
)  # fmt: skip
def test_g31_of_openai_requests(given: list[Any], expected: list[Any]) -> None:
    assert system_first(given) == expected


junk = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
messages = junk | st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]) | junk,
        "content": junk,
    },
)


@given(st.lists(messages, max_size=7))
def test_any_messages_are_put_in_order_and_no_text_of_a_system_message_is_lost(
    given: list[Any],
) -> None:
    out = system_first(given)
    good = [m for m in given if isinstance(m, dict) and isinstance(m.get("content"), str | list)]
    texts = [m["content"] for m in good if m.get("role") in ("system", "developer")]
    assert all(_is_in(repr(text), repr(out)) for text in texts if isinstance(text, str))
    later = [m for m in out[1:] if isinstance(m, dict) and isinstance(m.get("content"), str | list)]
    assert not any(m.get("role") in ("system", "developer") for m in later)


def _is_in(quoted: str, whole: str) -> bool:
    return quoted[1:-1] in whole
