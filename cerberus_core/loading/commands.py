"""Commands of plugins, imported one at a time when they are called."""

from typing import Any

from cerberus_core.errors import NotFound, PluginError

from . import reports
from .discover import described, installed
from .names import GROUP


def load_command(name: str) -> Any:
    """The object behind the command, no other plugin imported.

    Raises NotFound, or PluginError with cause and remedy.
    """
    found = [one for one in described(installed(GROUP)) if one.name == name]
    if not found:
        raise NotFound(f"no plugin brings a command {name!r}")
    if len(found) > 1:
        sources = ", ".join(one.source for one in found)
        raise PluginError(
            f"several plugins bring the command {name!r}: {sources}", hint="Uninstall all but one."
        )
    try:
        return found[0].entry_point.load()
    except (Exception, SystemExit) as error:  # whatever a plugin raises becomes one error
        report = reports.failed(found[0], "import", error)
        raise PluginError(
            f"command {name} of {found[0].source}: {report.problem}", hint=report.hint
        ) from error
