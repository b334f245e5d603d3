"""What the API needs of the rooms; made by the composition root."""

from collections.abc import Callable
from datetime import datetime

import attrs
from litestar.di import NamedDependency

from cerberus_core.access import Keys, OneTimeCodes
from cerberus_core.config import Current
from cerberus_core.engines import Manager
from cerberus_core.events import Bus
from cerberus_core.gateway import Gateway
from cerberus_core.gpu import Monitor
from cerberus_core.metrics import Tallies
from cerberus_core.platform import Clock
from cerberus_core.usage import Prompts, Store
from cerberus_core.values import Notice, PluginReport


@attrs.frozen(kw_only=True)
class Services:
    """One of each room, and the facts of this daemon."""

    manager: Manager
    gateway: Gateway
    monitor: Monitor
    store: Store
    prompts: Prompts
    tallies: Tallies
    bus: Bus
    codes: OneTimeCodes
    keys: Keys
    clock: Clock
    token: str = attrs.field(repr=False)
    plugins: list[PluginReport]
    settings: Current
    config_file: str
    notices: Callable[[], list[Notice]]
    """What is wrong with settings, plugins' settings and the state file."""
    url: Callable[[], str]
    """Where this daemon is reached, once it listens."""
    version: str
    started_at: datetime
    pid: int

    def warnings(self) -> list[str]:
        """What `notices` tells, a line each."""
        return [notice.text for notice in self.notices()]


Given = NamedDependency[Services]
"""How a controller's method asks for them."""
