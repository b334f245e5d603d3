"""Plugins and models in this process, for commands that work without the daemon."""

import os
from collections.abc import Sequence

import anyio

import cerberus_core
from cerberus_core.config import Config, load
from cerberus_core.engines.catalog import LIST_LIMIT_S
from cerberus_core.errors import CerberusError, ModelNotFound, NotFound, PluginError, Unavailable
from cerberus_core.interfaces import Backend
from cerberus_core.loading import Plugins, load_plugins
from cerberus_core.platform import Folders
from cerberus_core.values import ModelInfo

from .output import warn


def plugins_here(folders: Folders) -> tuple[Config, Plugins]:
    """Load the settings and the plugins; warnings go to stderr."""
    loaded = load(folders, os.environ)
    plugins = load_plugins(loaded.config, folders, core_version=cerberus_core.__version__)
    for warning in [*loaded.warnings, *plugins.warnings]:
        warn(f"! {warning}")
    return loaded.config, plugins


async def models_here(plugins: Plugins) -> list[ModelInfo]:
    """What the backends list; one that can't is told on stderr."""
    models: list[ModelInfo] = []
    for backend in plugins.backends.values():
        try:
            models += await list_of(backend)
        except CerberusError as error:
            warn(f"! {backend.name}: {error.message}" + (f" {error.hint}" if error.hint else ""))
    return sorted(models, key=lambda model: model.id)


async def list_of(backend: Backend) -> Sequence[ModelInfo]:
    """What it lists, under a time limit. Raises `CerberusError` whatever it raises."""
    try:
        with anyio.fail_after(LIST_LIMIT_S):
            return await backend.list()
    except TimeoutError:
        raise Unavailable(f"did not list its models within {LIST_LIMIT_S:.0f} s") from None
    except CerberusError:
        raise
    except Exception as error:
        raise PluginError(
            f"{type(error).__name__}: {error}", hint="This is a fault of the plugin."
        ) from error


async def find_here(plugins: Plugins, name: str) -> tuple[Backend, ModelInfo]:
    """A model by id or unique bare name. Raises `ModelNotFound`."""
    models = await models_here(plugins)
    found = [model for model in models if model.id == name] or [
        model for model in models if model.name == name
    ]
    if len(found) != 1:
        what = "There is no model" if not found else "There are several models"
        raise ModelNotFound(f"{what} named {name!r}", hint="`cerberus models ls` shows their ids.")
    return plugins.backends[found[0].backend], found[0]


def backend_for_pull(backends: Sequence[Backend], ref: str) -> tuple[Backend, str]:
    """(backend, its part of `ref`): `backend:rest` names one, else the first that can pull."""
    prefix, _, rest = ref.partition(":")
    for backend in backends:
        if rest and backend.name == prefix:
            return backend, rest
    for backend in backends:
        if type(backend).pull is not Backend.pull:
            return backend, ref
    raise NotFound(
        "No backend here can pull models",
        hint="Install one: `pip install cerberus-llamacpp`; `cerberus plugins` shows what is here.",
    )
