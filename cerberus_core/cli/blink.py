"""`version`, `token` and `status` in their plain form, without the command line parser.

Scripts, prompts and status bars call them again and again, and the parser
takes longer to import than they take to run. Whatever is more than the bare
word and `--json` is the parser's; it calls the same functions.
"""

import json as jsonlib
import os
from collections.abc import Callable
from typing import Any

from cerberus_core.errors import CerberusError

from .output import nobody_reads, say, say_json, show_error


def run(args: list[str]) -> int | None:
    """The exit code; None where the parser must look."""
    plain: Callable[[bool], None] | None = _PLAIN.get(args[0]) if args else None
    if plain is None or args[1:] not in ([], ["--json"]) or "_CERBERUS_COMPLETE" in os.environ:
        return None
    as_json = len(args) > 1
    try:
        plain(as_json)
    except CerberusError as error:
        return show_error(error, as_json=as_json)
    except BrokenPipeError:
        nobody_reads()
    except KeyboardInterrupt:
        return 130
    return 0


def version(as_json: bool) -> None:
    import cerberus_core

    if as_json:
        say_json({"version": cerberus_core.__version__})
    else:
        say(cerberus_core.__version__)


def token(as_json: bool) -> None:
    from cerberus_core.config import quick
    from cerberus_core.platform.paths import folders

    where = folders()
    found = quick.read(where)
    value = found.token
    if value is None:
        from cerberus_core.config import ensure_token
        from cerberus_core.platform.locks import FileLock

        from .daemon_client import other_token

        if found.pid is not None and FileLock(where.daemon_lock).is_held():
            raise other_token(where)

        value = ensure_token(where)
    if as_json:
        say_json({"token": value})
    else:
        say(value)


def status(as_json: bool) -> None:
    from .daemon_client import DaemonClient

    show_status(DaemonClient().get("/api/status"), as_json=as_json)


_PLAIN = {"version": version, "token": token, "status": status}


def show_status(status: dict[str, Any], *, as_json: bool, follow: bool = False) -> None:
    if as_json and follow:
        say(jsonlib.dumps(status, ensure_ascii=False))  # one line each, for bars
    elif as_json:
        say_json(status)
    elif follow:
        say(
            f"{status['models_loaded']} of {status['models']} models loaded, "
            f"{status['requests_in_flight']} requests running, {status['requests_total']} done"
        )
    else:
        say(f"Cerberus {status['version']} at {status['url']} (pid {status['pid']})")
        say(f"  up          {_duration(status['uptime_s'])}")
        say(f"  models      {status['models_loaded']} of {status['models']} loaded")
        running, total = status["requests_in_flight"], status["requests_total"]
        say(f"  requests    {running} running, {total} since the start")
        if status["plugins_failed"]:
            _say_typed(
                f"  plugins     {status['plugins_failed']} failed: `cerberus plugins` says why"
            )
        for warning in status["warnings"]:
            _say_typed(f"  ! {warning}")


def _say_typed(line: str) -> None:
    from .typed import typed  # not before there is something wrong to tell

    say(typed(line))


def _duration(seconds: int) -> str:
    minutes, s = divmod(seconds, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    parts = [(days, "d"), (h, "h"), (m, "min"), (s, "s")]
    shown = [f"{value} {unit}" for value, unit in parts if value][:2]
    return " ".join(shown) or "0 s"
