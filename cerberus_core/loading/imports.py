"""One entry point to its module, by stevedore."""

from importlib.metadata import EntryPoint
from typing import Any

from stevedore.named import NamedExtensionManager

from .discover import PLUGINS, Found
from .limits import within


def imported(found: Found, time_limit_s: float) -> Any:
    """The object behind the entry point. Raises whatever its import raised, or TookTooLong."""
    return within(time_limit_s, f"import of plugin {found.name}", lambda: _import(found))


def _import(found: Found) -> Any:
    failures: list[BaseException] = []

    def failed(_manager: object, _entry_point: EntryPoint, error: BaseException) -> None:
        failures.append(error)

    # AssertionError and SystemExit don't come through the callback: they are raised here.
    manager = _One(found, failed)
    if failures:
        raise failures[0]
    return manager[found.name].plugin


class _One(NamedExtensionManager[Any]):
    """A manager that sees one entry point, so that nothing else can be imported with it."""

    def __init__(self, found: Found, failed: Any) -> None:
        self._only = found.entry_point
        super().__init__(
            PLUGINS,
            [found.name],
            on_load_failure_callback=failed,
            on_missing_entrypoints_callback=None,
        )

    def list_entry_points(self) -> list[EntryPoint]:
        return [self._only]
