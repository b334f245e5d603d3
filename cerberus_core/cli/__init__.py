"""The `cerberus` command: one file for each group of commands.

Owns what a person types and reads. Prints, and nothing else prints. Heavy
imports stand inside the commands, so that `version`, `token` and `status`
start in a blink.

Exit codes: 0 done; 1 it failed; 2 the call or a setting is wrong; 3 the daemon
does not answer; 4 there is nothing of that name; 130 interrupted.
"""

from .main import main

__all__ = ["main"]
