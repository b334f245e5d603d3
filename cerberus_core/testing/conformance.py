"""What every plugin must keep, as checks for its own tests.

    def test_package():
        check_package("hello")

    def test_backends(tmp_path):
        asyncio.run(check_backends("hello", tmp_path))

    def test_vendors(tmp_path):
        check_gpu_vendors("hello", tmp_path)

All raise AssertionError with all that is wrong, one line each.
"""

import importlib.metadata
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import anyio.to_thread
from packaging.utils import canonicalize_name

from cerberus_core import __version__
from cerberus_core.config import Config
from cerberus_core.errors import Unavailable
from cerberus_core.interfaces import Backend, EnergyMeter, GPUVendor
from cerberus_core.loading import Plugins, load_plugins
from cerberus_core.platform import Folders
from cerberus_core.values import GPU, EnergyReading, ModelInfo

_GROUP = "cerberus.plugins"
_ASYNC = ("available", "list", "load", "unload", "gone", "pull", "remove", "aclose")
# What the core imports itself is there anyway; everything else is the plugin's doing.
_PROBE = """
import importlib, json, sys
import cerberus_core.hookspecs, cerberus_core.errors, cerberus_core.platform
cerberus_core.hookimpl
before = set(sys.modules)
module = importlib.import_module(sys.argv[1])
new = {name.partition(".")[0] for name in set(sys.modules) - before}
own = [
    name for name, value in vars(module).items()
    if getattr(value, "__module__", None) == module.__name__
    and callable(value) and not hasattr(value, "cerberus_impl")
]
print(json.dumps({"new": sorted(new - set(sys.stdlib_module_names)), "own": own}))
"""


def check_package(name: str) -> None:
    """The four names line up, and the entry module is light and holds hooks alone.

    A vendor library that is imported with the entry module slows every start
    and breaks it where the library is missing: import it inside methods.
    """
    entry_point = _entry_point(name)
    wrong = []
    package = f"cerberus_{name.replace('-', '_')}"
    if entry_point.value != package:
        wrong.append(f"entry point {name} is {entry_point.value!r}, should be {package!r}")
    dist = entry_point.dist
    if dist is not None and canonicalize_name(dist.name) != f"cerberus-{canonicalize_name(name)}":
        wrong.append(f"the distribution is {dist.name!r}, should be 'cerberus-{name}'")
    wrong += _import_problems(entry_point.module)
    _raise(name, wrong)


async def check_backends(
    name: str, data_dir: Path, settings: Mapping[str, Any] | None = None
) -> dict[str, Backend]:
    """The plugin loads with `settings`, and its backends list well-named models.

    Returns the backends, for further tests; they are closed by whoever asked.
    A backend whose server is down may raise Unavailable with a hint.
    """
    plugins = await anyio.to_thread.run_sync(lambda: _loaded(name, data_dir, settings))
    wrong = list(plugins.warnings)
    for backend in plugins.backends.values():
        wrong += _method_problems(backend)
        try:
            models = await backend.list()
        except Unavailable as error:
            if not error.hint:
                wrong.append(f"{backend.name}: Unavailable without a hint: {error}")
            continue
        wrong += _model_problems(backend, list(models))
    _raise(name, wrong)
    return plugins.backends


def check_gpu_vendors(
    name: str, data_dir: Path, settings: Mapping[str, Any] | None = None
) -> dict[str, GPUVendor]:
    """The plugin loads with `settings`; its vendors say whether they work, and read good cards.

    Returns the vendors, for further tests. Blocking, as they are.
    """
    plugins = _loaded(name, data_dir, settings)
    wrong = list(plugins.warnings)
    for vendor in plugins.gpu_vendors.values():
        wrong += _reader_problems(vendor, GPU, "id")
    _raise(name, wrong)
    return plugins.gpu_vendors


def check_energy_meters(
    name: str, data_dir: Path, settings: Mapping[str, Any] | None = None
) -> dict[str, EnergyMeter]:
    """As `check_gpu_vendors`, of its energy meters."""
    plugins = _loaded(name, data_dir, settings)
    wrong = list(plugins.warnings)
    for meter in plugins.energy_meters.values():
        wrong += _reader_problems(meter, EnergyReading, "zone")
    _raise(name, wrong)
    return plugins.energy_meters


def _loaded(name: str, data_dir: Path, settings: Mapping[str, Any] | None) -> Plugins:
    return load_plugins(
        Config(strict_plugins=True, plugins={name: dict(settings or {})}),
        Folders(data_dir, data_dir),
        core_version=__version__,
        entry_points=[_entry_point(name)],
    )


def _entry_point(name: str) -> EntryPoint:
    found = list(importlib.metadata.entry_points(group=_GROUP, name=name))
    if len(found) != 1:
        raise AssertionError(f"{len(found)} entry points {name!r} in {_GROUP}; install it once")
    return found[0]


def _import_problems(module: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, module],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return [f"{module} can't be imported: {last[0]}"]
    said = json.loads(done.stdout.splitlines()[-1])
    own = module.partition(".")[0]
    wrong = [
        f"{module} imports {name}: import it inside methods" for name in said["new"] if name != own
    ]
    return wrong + [f"{module}.{name} is no hook: move it to another file" for name in said["own"]]


def _method_problems(backend: Backend) -> list[str]:
    return [
        f"{type(backend).__name__}.{method} is not a coroutine function"
        for method in _ASYNC
        if not inspect.iscoroutinefunction(getattr(backend, method))
    ]


def _model_problems(backend: Backend, models: list[Any]) -> list[str]:
    wrong = []
    for model in models:
        if not isinstance(model, ModelInfo):
            wrong.append(f"{backend.name}: lists {model!r}, which is no ModelInfo")
        elif model.backend != backend.name or model.id != f"{backend.name}/{model.name}":
            wrong.append(f"{backend.name}: {model.id!r} should be '{backend.name}/{model.name}'")
    ids = [model.id for model in models if isinstance(model, ModelInfo)]
    wrong += [f"{backend.name}: {id!r} is listed twice" for id in ids if ids.count(id) > 1]
    return list(dict.fromkeys(wrong))


def _reader_problems(reader: GPUVendor | EnergyMeter, value: type, key: str) -> list[str]:
    wrong = [
        f"{type(reader).__name__}.{method} is a coroutine function; it must block"
        for method in ("available", "read", "close")
        if inspect.iscoroutinefunction(getattr(reader, method))
    ]
    if wrong:
        return wrong
    state = reader.available()
    if not state.ok:
        return (
            [] if state.detail and state.hint else [f"{reader.name}: says no without why or hint"]
        )
    try:
        read: Sequence[Any] = reader.read()
    except Unavailable as error:
        return [] if error.hint else [f"{reader.name}: Unavailable without a hint: {error}"]
    wrong += [f"{reader.name}: reads {one!r}" for one in read if not isinstance(one, value)]
    ids = [getattr(one, key) for one in read if isinstance(one, value)]
    wrong += [f"{reader.name}: {id!r} is read twice" for id in set(ids) if ids.count(id) > 1]
    return wrong


def _raise(name: str, wrong: list[str]) -> None:
    if wrong:
        raise AssertionError("\n".join([f"plugin {name}:", *wrong]))
