"""Changing one key of the file: comments and order stay, a wrong value never lands."""

import copy
import os
import secrets
import tempfile
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomlkit

from cerberus_core.errors import ConfigError
from cerberus_core.platform import FileLock, Folders

from .loader import checked
from .source import parse, read
from .structure import dotted, nearest

KeyPath = tuple[str, ...]
_LEAF = "leaf of a key path"
# Setting one of these whole would drop the keys within.
_SECTIONS = ("server", "gateway", "engines", "usage", "models", "plugins")


def set_value(folders: Folders, key: str, text: str) -> None:
    """Set `key` (`server.port`, `models."llamacpp/qwen".ttl_s`) to `text`.

    `text` is a TOML value, or else is taken as it stands. Raises ConfigError,
    and leaves the file as it was, if the key is unknown, the value is wrong or
    the file can't be written.
    """
    path = key_path(key)
    if path[0] in _SECTIONS and len(path) < (3 if path[0] in ("models", "plugins") else 2):
        raise ConfigError(f"{key} is a section", hint=f"set one of its keys: {key}.…")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{key}: the value is not UTF-8 text") from None
    value = _value(text)

    def change(old: str) -> str:
        try:
            return _with(old, path, value, folders.config_file)
        except ConfigError:
            if isinstance(value, str):
                raise
            # 1234 is a good name where the field is a text.
            try:
                return _with(old, path, text, folders.config_file)
            except ConfigError:
                pass
            raise

    _rewrite(folders, change)


def ensure_token(folders: Folders) -> str:
    """The token of the file; generated and saved if there is none. Safe in a race."""
    made: list[str] = []

    def change(old: str) -> str:
        config, _ = checked(parse(old, folders.config_file), folders.config_file, old)
        made.append(config.server.token or secrets.token_urlsafe(32))
        if config.server.token:
            return old
        return _with(old, ("server", "token"), made[0], folders.config_file)

    _rewrite(folders, change)
    return made[0]


def key_path(key: str) -> KeyPath:
    """The parts of a dotted key as TOML writes it. Raises ConfigError."""
    hint = 'write it like server.port or models."llamacpp/qwen".ttl_s'
    try:
        if "\n" in key or "\r" in key:
            raise ValueError
        here: Any = tomllib.loads(f'{key} = "{_LEAF}"')
    except (ValueError, RecursionError):
        raise ConfigError(f"{key!r} is not a key", hint=hint) from None
    path = []
    while isinstance(here, dict) and len(here) == 1:
        name, here = next(iter(here.items()))
        path.append(name)
    if here != _LEAF or len(path) > 16:
        raise ConfigError(f"{key!r} is not a key", hint=hint)
    return tuple(path)


def _value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if list(found) == ["value"] else text


def _with(old: str, path: KeyPath, value: Any, file: Path) -> str:
    """`old` with the key set, checked as the loader will check it. Raises ConfigError."""
    before = parse(old, file)
    wanted = copy.deepcopy(before)
    here: Any = wanted
    for part in path[:-1]:
        here = here.setdefault(part, {})
        if not isinstance(here, dict):
            raise ConfigError(f"{file}: {dotted(path)} can't be set: {part} is not a table")
    here[path[-1]] = value
    _config, unknown = checked(wanted, file, "")
    for one in unknown:
        if one.path == path[: len(one.path)]:
            raise ConfigError(
                f"unknown key {dotted(one.path)}{nearest(one)}",
                hint="`cerberus config show` lists the keys",
            )
    new = _edited(old, path, value)
    if new is None or not _same(new, wanted):
        raise ConfigError(
            f"{file}: {dotted(path)} can't be set without changing other lines",
            hint=f"edit {file} by hand",
        )
    return new


def _edited(old: str, path: KeyPath, value: Any) -> str | None:
    try:
        doc = tomlkit.parse(old)
        here: Any = doc
        for position, part in enumerate(path[:-1], start=2):
            if part not in here:
                here[part] = tomlkit.table(is_super_table=position < len(path))
            here = here[part]
        here[path[-1]] = value
        return tomlkit.dumps(doc)
    except Exception:  # noqa: BLE001 on odd files it raises all sorts; then nothing is written
        return None


def _same(text: str, wanted: dict[str, Any]) -> bool:
    try:
        # By repr, so that nan equals itself and 1 doesn't equal 1.0 or true.
        return _sorted(tomllib.loads(text)) == _sorted(wanted)
    except (ValueError, RecursionError):
        return False


def _sorted(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{_sorted(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_sorted(item) for item in value) + "]"
    return repr(value)


def _rewrite(folders: Folders, change: Callable[[str], str]) -> None:
    file = folders.config_file
    try:
        folders.config.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(file.with_name(".config.toml.lock")):
            text = read(file)
            new = change(text or "")
            if new != text:
                # The target of a link (a dotfiles folder, say) is replaced, not the link.
                replace_file(Path(os.path.realpath(file)), new)
    except OSError as error:
        raise ConfigError(
            f"{file}: can't be written: {error.strerror or error}",
            hint="the file is as it was; check the disk and the owner of the folder",
        ) from error


def replace_file(target: Path, text: str) -> None:
    """Whole or not at all, mode 0600. Raises OSError."""
    fd, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
