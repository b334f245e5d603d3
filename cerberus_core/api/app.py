"""The whole HTTP application: guard → gateway, UI files, or Litestar's controllers."""

from pathlib import Path
from typing import Any

from litestar import Litestar
from litestar.config.app import AppConfig
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

import cerberus_core
from cerberus_core.access import Hosts
from cerberus_core.config import Config
from cerberus_core.errors import CerberusError

from .box import BoxController, healthz
from .config import ConfigController
from .cors import Cors
from .events import events
from .gpus import GPUsController
from .guard import App, Guard
from .keys import KeysController
from .login import LoginController
from .metrics import metrics
from .models import ModelsController
from .problems import on_cerberus_error, on_fault, on_http_error, on_too_deep
from .requests import RequestsController
from .services import Services
from .shell import Shell
from .wire import Receive, Scope, Send, head_as_get, safely

WEB_DIST = Path(cerberus_core.__file__).parent / "web_dist"


def build(services: Services, *, web_dist: Path = WEB_DIST) -> App:
    """Put it together. The result is a plain ASGI application.

    The gateway stands beside Litestar, not inside it: measured, a mount costs
    the same, and here the paths arrive as the client sent them.
    """
    admin = admin_app(services)
    shell = Shell(web_dist)
    gateway = services.gateway

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.startswith("/v1/") or path == "/v1":
            await gateway(scope, receive, send)
        elif scope["type"] == "http" and path in shell:
            await shell.serve(scope, send)
        elif scope["type"] == "http" and scope["method"] == "HEAD":
            await admin(*head_as_get(scope, receive, safely(send)))  # type: ignore[arg-type]
        else:
            await admin(scope, receive, safely(send))  # type: ignore[arg-type]

    guard = Guard(
        dispatch,
        gateway=gateway,
        keys=services.keys,
        hosts=hosts_of(services.settings.config),
        cors=cors_of(services.settings.config),
        token=services.token,
        clock=services.clock,
        shell=shell,
        token_waits=lambda: services.settings.token_waits,
    )
    services.settings.follow(lambda config: guard.retune(hosts_of(config), cors_of(config)))
    return guard


def hosts_of(config: Config) -> Hosts:
    """Whom the settings let in."""
    server = config.server
    return Hosts(bind=server.host, public_url=server.public_url, allowed=server.allowed_hosts)


def cors_of(config: Config) -> Cors:
    """Whose pages the settings let in."""
    return Cors(config.gateway.cors_origins)


def admin_app(services: Services | None) -> Litestar:
    """Litestar with every controller. Without services it can only describe itself."""

    def provide() -> Services:
        assert services is not None
        return services

    def no_default_logging(config: AppConfig) -> AppConfig:
        config.logging_config = None
        return config

    handlers: dict[Any, Any] = {
        CerberusError: on_cerberus_error,
        HTTPException: on_http_error,
        RecursionError: on_too_deep,
        Exception: on_fault,
    }
    return Litestar(
        route_handlers=[
            healthz,
            metrics,
            BoxController,
            ConfigController,
            GPUsController,
            KeysController,
            ModelsController,
            RequestsController,
            LoginController,
            events,
        ],
        dependencies={"services": Provide(provide, sync_to_thread=False)},
        exception_handlers=handlers,
        on_app_init=[no_default_logging],
        openapi_config=OpenAPIConfig(
            title="Cerberus",
            version=cerberus_core.__version__,
            # The whole path here: Litestar answers everything below it with a page of its own.
            path="/api/openapi.json",
            render_plugins=[JsonRenderPlugin(path="/")],
        ),
        state=State(),
    )
