"""Which settings are secrets, and how values are shown without them.

A name is judged by its words: `api_key`, `hf-token` and `Authorization` are
secrets, `max_tokens = 512` and `api_key_env` (the name of a variable) are not.
Everything under a secret name, and every value of `headers`, is secret too.
"""

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from .schema import Config

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET = frozenset(
    {"apikey", "auth", "authorization", "bearer", "cookie", "credential", "headers", "key"}
    | {"passphrase", "passwd", "password", "secret", "token"}
)
_NAMES_A_PLACE = frozenset({"env", "file", "path"})
_USERINFO = re.compile(r"(://)[^/@\s]+@")
_QUERY = re.compile(r"([?&][^=&\s]*(?:key|token|secret|password)[^=&\s]*=)[^&#\s]+", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if words and words[-1] in _NAMES_A_PLACE:
        return False
    return any(word in _SECRET or word.removesuffix("s") in _SECRET for word in words)


def shows(key: object, value: object) -> bool:
    """Whether the value under this key may be shown, in settings and in logs."""
    # `max_tokens = 512` is a number of tokens, not a token.
    is_amount = str(key).lower().endswith("tokens") and isinstance(value, int | float)
    return is_amount or not looks_secret(str(key))


def is_secret(path: Iterable[str]) -> bool:
    return any(looks_secret(part) for part in path)


def masked(value: Any, *, secret: bool = False) -> Any:
    """A JSON-able copy of `value` in which secrets are "set", or None where empty."""
    if isinstance(value, Mapping):
        return {str(k): masked(v, secret=secret or not shows(k, v)) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(v, secret=secret or hidden) for v, hidden in _options(value)]
    if secret:
        return None if value is None or value == "" else "set"
    if isinstance(value, str):
        return _without_secrets(str(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value


def public(config: Config) -> dict[str, Any]:
    """The settings as anybody may see them: JSON-able; each secret is "set" or None."""
    shown: dict[str, Any] = masked(attrs.asdict(config))
    return shown


def redacted(text: str, tree: Any) -> str:
    """`text` without the secrets of `tree`, for messages that others wrote."""
    for secret in sorted(_secrets(tree, False), key=len, reverse=True):
        text = text.replace(secret, "…")
    return text


def _secrets(value: Any, secret: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secrets(inner, secret or looks_secret(str(key)))
    elif isinstance(value, list | tuple):
        for inner, hidden in _options(value):
            yield from _secrets(inner, secret or hidden)
    elif secret and value is not None and not isinstance(value, bool) and str(value):
        yield str(value)
    elif isinstance(value, str):
        for found in _USERINFO.finditer(value):
            yield found.group(0)[3:-1]


def _options(values: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Items of an argument list; what follows `--api-key` is a secret."""
    hidden = False
    for value in values:
        is_option = isinstance(value, str) and value.startswith("-")
        if is_option and "=" in value and looks_secret(value.partition("=")[0]):
            yield value.partition("=")[0] + "=set", False
            hidden = False
            continue
        yield value, hidden
        hidden = is_option and looks_secret(value)


def _without_secrets(text: str) -> str:
    return _QUERY.sub(r"\1set", _USERINFO.sub(r"\1set@", text))
