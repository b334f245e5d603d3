"""A failure as one line with cause and remedy. Never fails itself."""

from cerberus_core.errors import CerberusError
from cerberus_core.values import PluginReport

from .discover import Found
from .limits import Ended, TookTooLong

_MAX = 300


def loaded(found: Found, provides: tuple[str, ...]) -> PluginReport:
    return _report(found, "loaded", provides=provides)


def blocked(found: Found) -> PluginReport:
    return _report(found, "blocked", hint="Listed in blocked_plugins.")


def failed(found: Found, doing: str, error: BaseException) -> PluginReport:
    """`doing` is the step, such as `import`."""
    block = f'To start without it: blocked_plugins = ["{found.name}"]'
    if isinstance(error, CerberusError):
        return _report(found, "failed", problem=_first_line(error), hint=error.hint or block)
    if isinstance(error, TookTooLong):
        hint = f"Report it to the authors of {found.source}. {block}"
        return _report(found, "failed", problem=f"{doing} {error}", hint=hint)
    return _report(
        found,
        "failed",
        problem=f"{doing} raised {cause(error)}",
        hint=_missing(found, error) or f"Report it to the authors of {found.source}. {block}",
    )


def cause(error: BaseException) -> str:
    """`ImportError: no module x`; the kind alone where there is no message."""
    if isinstance(error, Ended) and error.__cause__ is not None:
        error = error.__cause__
    message = _first_line(error)
    kind = type(error).__name__
    return f"{kind}: {message}" if message else kind


def _missing(found: Found, error: BaseException) -> str | None:
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    own = found.entry_point.value.partition(":")[0].partition(".")[0].strip()
    if error.name == own:
        return f"The package is gone and its metadata was left: uninstall {found.source}"
    return f"Install what provides {error.name}, or reinstall {found.source}"


def _first_line(error: BaseException) -> str:
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 a broken __str__ of a plugin's exception
        text = ""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _MAX else line[: _MAX - 1] + "…"


def _report(
    found: Found,
    state: str,
    *,
    provides: tuple[str, ...] = (),
    problem: str | None = None,
    hint: str | None = None,
) -> PluginReport:
    return PluginReport(
        name=found.name,
        state=state,  # type: ignore[arg-type]
        distribution=found.distribution,
        version=found.version,
        provides=provides,
        problem=problem,
        hint=hint,
    )
