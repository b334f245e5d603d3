"""Changes of settings, told to a person."""

import json
from typing import Any

EFFECTS = {
    "now": "applied at once",
    "next_load": "applies to the next load of the model",
    "restart": "needs a restart",
}


def told(changes: list[dict[str, Any]]) -> list[str]:
    """Two lines for each: the key with both values, and what becomes of it."""
    lines = []
    for change in changes:
        lines.append(f"{change['key']}: {_values(change['old'], change['new'])}")
        effect = EFFECTS[change["effect"]]
        lines.append(f"    {effect}{': ' if change['about'] else ''}{change['about'] or ''}")
    return lines


def _values(old: Any, new: Any) -> str:
    if old == new:  # both are a secret
        return "changed"
    return f"{_value(old)} → {_value(new)}"


def _value(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)
