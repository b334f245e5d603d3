"""What the API needs of the rooms; made by the composition root."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import attrs
from litestar.di import NamedDependency

from cerberus_core.access import Hosts, OneTimeCodes
from cerberus_core.engines import Manager
from cerberus_core.events import Bus
from cerberus_core.gateway import Gateway
from cerberus_core.gpu import Monitor
from cerberus_core.platform import Clock
from cerberus_core.usage import Store
from cerberus_core.values import PluginReport


@attrs.frozen(kw_only=True)
class Price:
    """Of electricity; `per_kwh` None where it isn't set."""

    per_kwh: float | None = None
    currency: str = "EUR"


@attrs.frozen(kw_only=True)
class Services:
    """One of each room, and the facts of this daemon."""

    manager: Manager
    gateway: Gateway
    monitor: Monitor
    price: Price
    store: Store
    bus: Bus
    codes: OneTimeCodes
    clock: Clock
    token: str = attrs.field(repr=False)
    hosts: Hosts
    plugins: list[PluginReport]
    public_config: dict[str, Any]
    config_file: str
    warnings: Callable[[], list[str]]
    url: Callable[[], str]
    """Where this daemon is reached, once it listens."""
    version: str
    started_at: datetime
    pid: int


Given = NamedDependency[Services]
"""How a controller's method asks for them."""
