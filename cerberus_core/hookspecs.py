"""Every hook of Cerberus.

Hooks are few, synchronous, and return lists of objects; all behaviour is in
the methods of those objects (`cerberus_core.interfaces`). A plugin implements
a hook with `@cerberus_core.hookimpl`. A coroutine function is refused, and so
is a hook that does not stand here.
"""

import pluggy

from .interfaces import Backend, PluginSetup

hookspec = pluggy.HookspecMarker("cerberus")


@hookspec
def cerberus_model_backends(setup: PluginSetup) -> list[Backend]:  # type: ignore[empty-body]
    """The model backends of this plugin; one plugin may bring several.

    Called once, at start, in a worker thread under a time limit: make the
    objects, read the settings, and leave connecting and importing vendor
    libraries to the objects' methods.
    """
