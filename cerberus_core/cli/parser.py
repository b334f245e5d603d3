"""Finds the command, runs it, and turns errors into words and exit codes."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "serve": "serve",
    "status": "status",
    "chat": "chat",
    "models": "models",
    "usage": "usage",
    "why": "why",
    "keys": "keys",
    "plugins": "plugins",
    "config": "config",
    "token": "token",
    "url": "url",
    "doctor": "doctor",
    "version": "version",
}
"""Command → module of this package that holds its `app`."""

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 wrong call or setting, 3 no daemon, 4 not found, "
    "130 interrupted."
)


# Newer typers carry click inside them: its classes are reached through what typer exports.
ClickException: Any = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException"
)


class Commands(TyperGroup):
    """Imports a command's module when it is asked for; plugins' commands last."""

    def list_commands(self, ctx: Any) -> list[str]:
        from cerberus_core.loading import plugin_command_names

        return [*COMMANDS, *sorted(set(plugin_command_names()) - set(COMMANDS))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of ours, or for `--help` and completion a stand-in of a plugin's."""
        module = COMMANDS.get(cmd_name)
        if module is not None:
            return _named(cmd_name, import_module(f".{module}", __package__).app)
        from cerberus_core.loading import plugin_command_names

        if cmd_name not in plugin_command_names():
            return None
        stand_in = typer.Typer(add_completion=False, rich_markup_mode=None)
        stand_in.command(help="A plugin's command.")(lambda: None)
        return _named(cmd_name, stand_in)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What is called: here, and nowhere else, a plugin's command is imported."""
        try:
            found = super().resolve_command(ctx, args)
        except ClickException as error:
            error.message += _meant(args[0], self.list_commands(ctx))
            raise
        name = found[0]
        if name is None or name in COMMANDS:
            return found
        from cerberus_core.loading import load_command

        return name, _named(name, load_command(name)), found[2]


def _meant(word: str, commands: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, commands, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def _named(name: str, app: Any) -> Any:
    command = typer.main.get_command(app) if isinstance(app, typer.Typer) else app
    command.name = name
    return command


root = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@root.callback()
def _root() -> None:
    """Cerberus: local models on demand, and one gateway to any engine or cloud."""


def run(args: list[str]) -> int:
    """Run one command; its exit code."""
    from cerberus_core.errors import CerberusError

    as_json = "--json" in args
    try:
        result: Any = typer.main.get_command(root).main(
            args, prog_name="cerberus", standalone_mode=False
        )
    except typer.Exit as error:
        return error.exit_code
    except ClickException as error:
        from .wrong_call import show_wrong_call

        return show_wrong_call(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        from .output import nobody_reads

        nobody_reads()  # which click and rich make an exit with 1
        return 0
    except CerberusError as error:
        from .output import show_error

        return show_error(error, as_json=as_json)
    return result if isinstance(result, int) else 0
