"""Running what is asynchronous from a command."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cerberus_core.errors import CerberusError

T = TypeVar("T")


def run_async(main: Callable[[], Awaitable[T]], **backend_options: Any) -> T:
    """What `main` returns. Task groups wrap what they let through; ours is raised as itself."""
    import anyio

    try:
        return anyio.run(main, backend_options=backend_options)
    except BaseExceptionGroup as group:
        ours = group.subgroup(CerberusError)
        if ours is None:
            raise
        error: BaseException = ours
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
