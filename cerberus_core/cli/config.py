"""`cerberus config`."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json
from .output import say, say_json, warn

if TYPE_CHECKING:
    from cerberus_core.config import Draft
    from cerberus_core.platform import Folders

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def _config() -> None:
    """Show and change the settings."""


@app.command()
def path(json: Json = False) -> None:
    """Print where the file of the settings is; with --json the data folder too."""
    from cerberus_core.platform import folders

    where = folders()
    if json:
        say_json({"config": str(where.config_file), "data": str(where.data)})
    else:
        say(str(where.config_file))


@app.command()
def show(json: Json = False) -> None:
    """Print the settings in force, without secrets."""
    import tomlkit

    from cerberus_core.config import load, public
    from cerberus_core.platform import folders

    loaded = load(folders(), os.environ)
    for warning in loaded.warnings:
        warn(f"! {warning}")
    values = public(loaded.config)
    if json:
        say_json(values)
    else:
        say(tomlkit.dumps(_without_none(values)).strip())


def _without_none(value: Any) -> Any:
    # TOML has no null: what is unset is left out.
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


@app.command("set")
def set_(
    key: Annotated[str, typer.Argument(help='Such as `server.port` or `models."a/b".ttl_s`.')],
    value: Annotated[str, typer.Argument(help='As in TOML: 8000, true, "text", ["a", "b"].')],
    json: Json = False,
) -> None:
    """Change one setting; comments in the file are kept."""
    from cerberus_core.config import set_value
    from cerberus_core.platform import folders

    where = folders()
    set_value(where, key, value, _schema_here)
    if json:
        say_json({"set": key, "file": str(where.config_file)})
    else:
        say(f"{key} is set in {where.config_file}. {_when(key, where)}")


@app.command()
def unset(
    key: Annotated[str, typer.Argument(help='Such as `server.port` or `models."a/b"`.')],
    json: Json = False,
) -> None:
    """Take one setting out of the file, so that its default is in force again."""
    from cerberus_core.config import unset_value
    from cerberus_core.platform import folders

    where = folders()
    unset_value(where, key, _schema_here)
    if json:
        say_json({"unset": key, "file": str(where.config_file)})
    else:
        say(f"{key} is out of {where.config_file}. {_when(key, where)}")


def _when(key: str, where: "Folders") -> str:
    """When a change of `key` takes effect."""
    from cerberus_core.config import effect_of, key_path
    from cerberus_core.platform import FileLock

    if FileLock(where.daemon_lock).is_held():
        path = key_path(key)
        effect = effect_of(path)
        if effect == "now" or (path[0] == "plugins" and not _waits(path)):
            return "The running daemon takes it up."
        if effect == "next_load":
            return "The running daemon takes it up when it loads the model the next time."
    return "It takes effect at the next start."


def _waits(path: tuple[str, ...]) -> bool:
    """Whether the running daemon needs a restart for it; which plugins do it knows alone."""
    from cerberus_core.config.structure import dotted
    from cerberus_core.errors import CerberusError

    from .daemon_client import DaemonClient

    try:
        changes = DaemonClient().get("/api/config/diff")["changes"]
    except CerberusError:
        return True
    key = dotted(path)
    return any(
        change["effect"] == "restart" and f"{change['key']}.".startswith(f"{key}.")
        for change in changes
    )


def _schema_here(name: str) -> type | None:
    """What the plugin `name` says of its settings; None where it can't be asked."""
    from cerberus_core.config import load
    from cerberus_core.errors import ConfigError, NotFound, PluginError
    from cerberus_core.loading import settings_class
    from cerberus_core.platform import folders

    blocked: list[str] = []
    with suppress(ConfigError):  # what is wrong elsewhere in the file is told by others
        blocked = load(folders(), os.environ).config.blocked_plugins
    if name in blocked:
        warn(f"! plugin {name} is blocked: its settings are not checked")
        return None
    try:
        return settings_class(name, folders())
    except NotFound as error:
        raise ConfigError(error.message, hint=error.hint) from None
    except PluginError as error:
        warn(f"! {error.message}; they are not checked")
        return None


@app.command()
def diff(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="One that isn't in place yet; - is stdin."),
    ] = None,
    json: Json = False,
) -> None:
    """Show how the file differs from what the daemon runs with, and what would become of it."""
    from cerberus_core.errors import DaemonUnreachable

    from .config_diff import told
    from .daemon_client import DaemonClient

    draft = None if file is None else _draft(file)
    try:
        if draft is None:
            answer = DaemonClient().get("/api/config/diff")
        else:
            answer = DaemonClient().post(
                "/api/config/diff", {"file": draft.file, "text": draft.text}
            )
        found = {"against": "daemon", **answer}
    except DaemonUnreachable as error:
        found = {"against": "defaults", **_against_defaults(draft)}
        warn(f"! {error.message}: the file is shown against the defaults. {error.hint}")
    if json:
        say_json(found)
        return
    for line in told(found["changes"]):
        say(line)
    if not found["changes"]:
        what = "what the daemon runs with" if found["against"] == "daemon" else "the defaults"
        say(f"{found['file']} says nothing but {what}.")


def _draft(name: str) -> "Draft":
    """Raises ConfigError, NotFound."""
    import sys
    from pathlib import Path

    from cerberus_core.config import Draft
    from cerberus_core.config.file import decoded, read
    from cerberus_core.config.quick import MAX_BYTES
    from cerberus_core.errors import ConfigError, NotFound

    if name == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"stdin: it holds more than {MAX_BYTES >> 20} MiB")
        return Draft(file="stdin", text=decoded(data, Path("stdin")))
    text = read(Path(name))
    if text is None:
        raise NotFound(f"There is no file {name}")
    return Draft(file=name, text=text)


def _against_defaults(draft: "Draft | None") -> dict[str, Any]:
    import attrs

    from cerberus_core.config import Config, diff, load
    from cerberus_core.platform import folders

    where = folders()
    changes = diff(Config(), load(where, os.environ, draft=draft).config)
    file = str(where.config_file) if draft is None else draft.file
    return {"file": file, "changes": [attrs.asdict(one) for one in changes]}


@app.command()
def reload(json: Json = False) -> None:
    """Make the daemon read the file now; it does so by itself when the file is saved."""
    from .config_diff import told
    from .daemon_client import DaemonClient

    done = DaemonClient().post("/api/config/reload")
    if json:
        say_json(done)
        return
    for line in told(done["changes"]):
        say(line)
    if not done["changes"]:
        say(f"Nothing has changed in {done['file']}.")
