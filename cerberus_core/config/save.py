"""Changing one key of the file: a wrong value never lands, nobody's change is lost."""

import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cerberus_core.errors import ConfigError
from cerberus_core.platform import FileLock, Folders

from .edit import Schemas, key_path, with_value, without
from .file import parse, read
from .loader import checked
from .overrides import parsed

# Setting one of these whole would drop the keys within.
_SECTIONS = ("server", "gateway", "engines", "usage", "models", "prices", "plugins")
_NAMED = ("models", "prices", "plugins")


def _unknown_plugins(_name: str) -> None:
    return None


def set_value(folders: Folders, key: str, text: str, schemas: Schemas = _unknown_plugins) -> None:
    """Set `key` (`server.port`, `models."llamacpp/qwen".ttl_s`) to `text`.

    `text` is a TOML or JSON value, or else is taken as it stands. Raises
    ConfigError, and leaves the file as it was, if the key is unknown, the value
    is wrong or the file can't be written.
    """
    path = key_path(key)
    if path[0] in _SECTIONS and len(path) < (3 if path[0] in _NAMED else 2):
        raise ConfigError(f"{key} is a section", hint=f"Set one of its keys: {key}.…")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{key}: the value is not UTF-8 text") from None
    value = _value(text)

    def change(old: str) -> str:
        try:
            return with_value(old, path, value, folders.config_file, schemas)
        except ConfigError:
            if isinstance(value, str):
                raise
            # 1234 is a good name where the field is a text.
            try:
                return with_value(old, path, text, folders.config_file, schemas)
            except ConfigError:
                pass
            raise

    _rewrite(folders, change)


def unset_value(folders: Folders, key: str, schemas: Schemas = _unknown_plugins) -> None:
    """Take `key`, or the table of that name, out of the file.

    Raises NotFound where it isn't there, ConfigError where the rest would be
    wrong without it; the file is as it was then.
    """
    path = key_path(key)
    if len(path) == 1 and path[0] in _SECTIONS:
        raise ConfigError(f"{key} is a section", hint=f"Unset one of its keys: {key}.…")
    _rewrite(folders, lambda old: without(old, path, folders.config_file, schemas))


def ensure_token(folders: Folders) -> str:
    """The token of the file; generated and saved if there is none. Safe in a race."""
    made: list[str] = []

    def change(old: str) -> str:
        config, _ = checked(parse(old, folders.config_file), folders.config_file, old)
        made.append(config.server.token or secrets.token_urlsafe(32))
        if config.server.token:
            return old
        token = ("server", "token")
        return with_value(old, token, made[0], folders.config_file, _unknown_plugins)

    _rewrite(folders, change)
    return made[0]


def _value(text: str) -> Any:
    try:
        value = parsed(text)
    except ValueError:
        return text
    return text if value is None else value


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
            hint="The file is as it was; check the disk and the owner of the folder.",
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
