"""The `cerberus` command: one file for each group of commands.

Owns what a person types and reads. Prints, and nothing else prints. Heavy
imports stand inside the commands, so that `version`, `token` and `status`
start in a blink.

Exit codes: 0 done; 1 it failed; 2 the call or a setting is wrong; 3 the daemon
does not answer; 4 there is nothing of that name; 130 interrupted.
"""

import sys

__all__ = ["main"]


def main(args: list[str] | None = None) -> None:
    """The console script. Never returns; exits with a documented code."""
    from . import blink

    args = sys.argv[1:] if args is None else args
    code = blink.run(args)
    if code is None:
        from .parser import run

        code = run(args)
    sys.exit(code)
