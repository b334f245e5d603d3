"""The built application without a daemon and without a server."""

from pathlib import Path
from typing import Any

from cerberus_core.access import Keys, OneTimeCodes
from cerberus_core.api import Services
from cerberus_core.config import Config, Current, Loaded
from cerberus_core.engines import Manager, Policies
from cerberus_core.events import Bus
from cerberus_core.gateway import Gateway, Options
from cerberus_core.gpu import Monitor
from cerberus_core.metrics import Tallies
from cerberus_core.platform import SystemClock
from cerberus_core.usage import Prompts, Store

TOKEN = "the-token-of-this-test"


def services(folder: Path) -> Services:
    clock = SystemClock()
    manager = Manager({}, policies=Policies(default_ttl_s=0.0, models={}, aliases={}), clock=clock)
    store = Store(folder)
    bus = Bus()
    loaded = Loaded(config=Config())
    return Services(
        manager=manager,
        gateway=Gateway(manager, store, publish=bus.publish, clock=clock, options=Options()),
        monitor=Monitor({}, {}, clock=clock),
        store=store,
        prompts=Prompts(folder / "prompts", days=1, most_bytes=1 << 20),
        tallies=Tallies(),
        bus=bus,
        codes=OneTimeCodes(clock),
        keys=Keys(None, clock),
        clock=clock,
        token=TOKEN,
        plugins=[],
        settings=Current(loaded, lambda: loaded),
        config_file="config.toml",
        notices=list,
        url=lambda: "http://127.0.0.1:7733",
        version="0",
        started_at=clock.now(),
        pid=1,
    )


async def handshake(app: Any, path: str, headers: dict[str, str]) -> list[dict[str, Any]]:
    """What the application sends in answer to a WebSocket handshake."""
    pairs = {"host": "127.0.0.1:7733", **headers}
    scope = {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "ws",
        "http_version": "1.1",
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 7733),
        "subprotocols": [],
        "headers": [(name.encode(), value.encode()) for name, value in pairs.items()],
        "state": {},
    }
    sent: list[dict[str, Any]] = []
    incoming = iter([{"type": "websocket.connect"}])

    async def receive() -> dict[str, Any]:
        return next(incoming, {"type": "websocket.disconnect", "code": 1005})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent
