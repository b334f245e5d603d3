"""Matching one plugin against the hooks, and calling its hooks alone."""

import inspect
from collections.abc import Iterator
from typing import Any

import pluggy

from cerberus_core import hookspecs
from cerberus_core.errors import PluginError

PREFIX = "cerberus_"


def new_manager() -> pluggy.PluginManager:
    """One of our own, never a global one."""
    manager = pluggy.PluginManager("cerberus")
    manager.add_hookspecs(hookspecs)
    return manager


def register(manager: pluggy.PluginManager, name: str, plugin: Any) -> None:
    """Raises PluginError, and leaves no part behind, for what isn't a good plugin."""
    known = {hook for hook in vars(hookspecs) if hook.startswith(PREFIX)}
    count = 0
    for hook, implementation, marked in _implementations(manager, plugin):
        if hook not in known:
            raise PluginError(
                f"implements an unknown hook, {hook}",
                hint=f"Hooks of this version: {', '.join(sorted(known))}",
            )
        if not marked:
            raise PluginError(
                f"{hook} is not marked as a hook", hint="Put @cerberus_core.hookimpl above it."
            )
        if inspect.iscoroutinefunction(implementation) or inspect.isasyncgenfunction(
            implementation
        ):
            raise PluginError(
                f"{hook} is a coroutine function; hooks are synchronous",
                hint="Make the objects in the hook, and await in their methods.",
            )
        count += 1
    if not count:
        raise PluginError(
            "implements no hook", hint=f"Hooks of this version: {', '.join(sorted(known))}"
        )
    try:
        manager.register(plugin, name)
    except (pluggy.PluginValidationError, ValueError) as error:
        if manager.has_plugin(name):
            manager.unregister(name=name)
        raise PluginError(
            f"does not fit the hooks: {str(error).splitlines()[0]}",
            hint="Compare its arguments with cerberus_core.hookspecs.",
        ) from error


def implements(manager: pluggy.PluginManager, plugin: Any, hook: str) -> bool:
    return any(name == hook for name, _, _ in _implementations(manager, plugin))


def call(manager: pluggy.PluginManager, plugin: Any, hook: str, **arguments: Any) -> list[Any]:
    """What `hook` of this plugin alone returned: a list of one, empty for None."""
    others = [other for other in manager.get_plugins() if other is not plugin]
    results: list[Any] = manager.subset_hook_caller(hook, others)(**arguments)
    return results


def _implementations(manager: pluggy.PluginManager, plugin: Any) -> Iterator[tuple[str, Any, bool]]:
    """Hook name, function, whether it is marked, for all that looks like a hook."""
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is not None:
            yield options.get("specname") or name, getattr(plugin, name), True
        elif name in vars(hookspecs) and name.startswith(PREFIX):
            yield name, getattr(plugin, name), False
