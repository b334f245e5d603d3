"""What is told of a call that the parser refuses."""

import re
from typing import Any

from cerberus_core.errors import CerberusError

from .output import show_error

_RANGE = re.compile(r"is not in the range (\S+?)<=x<=(\S+?)\.")
_NUMBER = re.compile(r"is not a valid int(eger)?( range)?\.")


def show_wrong_call(error: Any, *, as_json: bool) -> int:
    """Tell click's error on stderr, with how the command is called; its exit code."""
    error.message = _RANGE.sub(r"is not between \1 and \2.", error.message)
    error.message = _NUMBER.sub("is not a whole number.", error.message)
    if as_json:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "cerberus"
        told = CerberusError(
            error.format_message(), hint=f"`{command} -h` shows how.", code="usage"
        )
        show_error(told, as_json=True)
    else:
        error.show()
    return int(error.exit_code)
