"""Every hook of Cerberus.

Hooks are few, synchronous, and return lists of objects; all behaviour is in
the methods of those objects (`cerberus_core.interfaces`). A plugin implements
a hook with `@cerberus_core.hookimpl`. A coroutine function is refused, and so
is a hook that does not stand here.
"""

import pluggy

from .interfaces import Backend, EnergyMeter, GPUVendor, PluginSetup

hookspec = pluggy.HookspecMarker("cerberus")


@hookspec
def cerberus_model_backends(setup: PluginSetup) -> list[Backend]:  # type: ignore[empty-body]
    """The model backends of this plugin; one plugin may bring several.

    Called at start, in a worker thread under a time limit: make the objects,
    read the settings, and leave connecting and importing vendor libraries to
    the objects' methods. Called again when the settings change, where nothing
    that the plugin brought keeps anything (`cerberus_core.loading.Plugins.live`).
    """


@hookspec
def cerberus_gpu_vendors(setup: PluginSetup) -> list[GPUVendor]:  # type: ignore[empty-body]
    """The readers of GPUs of this plugin; usually one.

    Called as `cerberus_model_backends` is: whether there is a driver and a
    card is for `available` to find out.
    """


@hookspec
def cerberus_energy_meters(setup: PluginSetup) -> list[EnergyMeter]:  # type: ignore[empty-body]
    """The energy meters of this plugin that are no GPUs; usually one.

    Called as `cerberus_model_backends` is.
    """
