"""Settings from the environment: `CERBERUS_SERVER__PORT=8000` is `server.port`.

`__` stands between the keys. Upper-case parts are matched without regard to
case against keys that exist, and taken in lower case otherwise. Values are
read by the type of their field, lists and tables as TOML or JSON. An empty
value counts as not set.
"""

import json
import tomllib
from collections.abc import Mapping
from typing import Any

PREFIX = "CERBERUS_"
# Without `__` a name may be anybody's (CERBERUS_CONFIG moves the folder).
SINGLE = ("default_model", "strict_plugins", "blocked_plugins")
_BOOLS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


class EnvText(str):
    """Text from the environment whose type isn't known yet; `source` is its name."""

    __slots__ = ("source",)
    source: str

    def __new__(cls, text: str, source: str = "") -> "EnvText":
        made = super().__new__(cls, text)
        made.source = source
        return made


def overlay(tables: dict[str, Any], env: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    """Put the environment's settings into `tables`; returns path → variable.

    Where the file has something that isn't a table on the way, it stays, and
    the schema reports it.
    """
    sources: dict[tuple[str, ...], str] = {}
    for name in sorted(env):
        parts = _parts(name)
        if parts is None or env[name] == "":
            continue
        path = _put(tables, parts, EnvText(env[name], name))
        if path is not None:
            sources[path] = name
    return sources


def source_at(tables: Any, path: tuple[str, ...]) -> str | None:
    """The variable that set what is at `path`, or None."""
    here = tables
    for part in path:
        if not isinstance(here, dict) or part not in here:
            break
        here = here[part]
    while isinstance(here, dict) and len(here) == 1:
        here = next(iter(here.values()))
    return here.source if isinstance(here, EnvText) else None


def parsed(text: str) -> Any:
    """`text` as a TOML value, else as JSON. Raises ValueError where it is neither."""
    try:
        found = tomllib.loads(f"value = {text}")
        if list(found) == ["value"]:
            return found["value"]
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parsed_bool(text: str) -> bool | None:
    return _BOOLS.get(text.strip().lower())


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _parts(name: str) -> list[str] | None:
    if not name.startswith(PREFIX) or not name.isprintable():
        return None
    rest = name[len(PREFIX) :]
    if "__" not in rest:
        return [rest] if rest.lower() in SINGLE else None
    parts = rest.split("__")
    if parts[0].lower() in ("models", "prices") and len(parts) > 3:
        # Only the last part is the setting; the name of the model may hold `__`.
        parts = [parts[0], "__".join(parts[1:-1]), parts[-1]]
    return parts


def _put(tables: dict[str, Any], parts: list[str], value: EnvText) -> tuple[str, ...] | None:
    path = []
    here: Any = tables
    for position, part in enumerate(parts):
        if not isinstance(here, dict):
            return None
        key = _key(here, part)
        path.append(key)
        if position == len(parts) - 1:
            here[key] = value
        else:
            here = here.setdefault(key, {})
    return tuple(path)


def _key(table: Mapping[str, Any], part: str) -> str:
    if part in table or part != part.upper():
        return part
    return next((key for key in table if key.upper() == part), part.lower())
