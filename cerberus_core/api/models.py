"""Models. Their ids hold slashes and colons, so they are path tails."""

from typing import Any
from urllib.parse import unquote

import attrs
from litestar import Controller, Request, Response, delete, get, post
from litestar.params import FromPath, FromQuery

from cerberus_core.values import Fit, ModelInfo, Plan, Problem

from .services import Given


@attrs.frozen(kw_only=True)
class Models:
    """`default` is the one to chat with where nobody named one; None where there is none.

    `problems` are of the backends that could not be listed. `fits` has those that
    Cerberus can load, by id.
    """

    models: list[ModelInfo]
    default: str | None
    problems: list[Problem]
    fits: dict[str, Fit]


class ModelsController(Controller):
    path = "/api/models"
    tags = ["models"]

    @get(summary="All models")
    async def list(self, services: Given) -> Models:
        """Every model of every backend with its state, broken ones included."""
        manager = services.manager
        models = await manager.models()
        return Models(
            models=models,
            default=manager.default(),
            problems=list(manager.problems.values()),
            fits=await manager.fits(),
        )

    @post("/load/{id:path}", summary="Load a model", status_code=200)
    async def load(
        self,
        services: Given,
        request: Request[Any, Any, Any],
        id: FromPath[str],
        wait: FromQuery[bool] = True,
    ) -> Response[ModelInfo]:
        """Answers when it is ready; with `wait=false` at once, with 202."""
        return _answered(await services.manager.load(_tail(request, "load"), wait=wait), wait)

    @post("/unload/{id:path}", summary="Unload a model", status_code=200)
    async def unload(
        self,
        services: Given,
        request: Request[Any, Any, Any],
        id: FromPath[str],
        wait: FromQuery[bool] = True,
    ) -> Response[ModelInfo]:
        """Lets its requests finish first; with `wait=false` answers at once, with 202."""
        return _answered(await services.manager.unload(_tail(request, "unload"), wait=wait), wait)

    @post("/plan/{id:path}", summary="What loading a model would do", status_code=200)
    async def plan(
        self, services: Given, request: Request[Any, Any, Any], id: FromPath[str]
    ) -> Plan:
        """Memory it would take, who would leave for it, what is missing. Nothing is done."""
        return await services.manager.plan(_tail(request, "plan"))

    @delete("/{id:path}", summary="Delete a model's files")
    async def remove(
        self, services: Given, request: Request[Any, Any, Any], id: FromPath[str]
    ) -> None:
        """Unloads it first."""
        await services.manager.remove(_tail(request))


def _answered(model: ModelInfo, waited: bool) -> Response[ModelInfo]:
    return Response(model, status_code=200 if waited else 202)


def _tail(request: Request[Any, Any, Any], verb: str | None = None) -> str:
    # From the raw path: the router's own value loses doubled slashes.
    raw: bytes = request.scope["raw_path"]
    prefix = "/api/models/" + (f"{verb}/" if verb else "")
    return unquote(raw.decode("latin-1").partition("?")[0].removeprefix(prefix))
