"""The energy of CPU packages, from Linux's powercap."""

from cerberus_core import hookimpl
from cerberus_core.interfaces import EnergyMeter, PluginSetup


@hookimpl
def cerberus_energy_meters(setup: PluginSetup) -> list[EnergyMeter]:
    from .meter import RaplMeter
    from .settings import Settings

    return [RaplMeter(setup.settings(Settings).root)]
