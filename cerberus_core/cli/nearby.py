"""What else on this machine has models: engines that run, folders of other programs."""

import http.client
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs

from .typed import command_as_typed, install_as_typed

LIMIT_S = 0.3
"""For each step of a question to a port: connecting, and each wait for bytes."""
MOST_FILES = 5000
"""So many names are looked at in a folder."""


@attrs.frozen(kw_only=True)
class Engine:
    """A server that may run on its usual port, and how it is known."""

    name: str
    port: int
    path: str
    is_it: Callable[[Any], bool]
    """Whether what `path` answers (parsed JSON) is its."""
    plugin: str
    url: str = "http://127.0.0.1:{port}"
    """Its address, with `{port}`."""
    key: str = attrs.field()
    """The setting that takes its address."""

    @key.default
    def _base_url(self) -> str:
        return f"plugins.{self.plugin}.base_url"


@attrs.frozen(kw_only=True)
class Offer:
    """What was found, and the command that takes it in."""

    what: str
    command: str


def _has(key: str) -> Callable[[Any], bool]:
    return lambda told: isinstance(told, dict) and key in told


ENGINES = (
    Engine(
        name="Ollama",
        port=11434,
        path="/api/version",
        is_it=_has("version"),
        plugin="ollama",
    ),
    Engine(
        name="LM Studio",
        port=1234,
        path="/api/v0/models",
        is_it=_has("data"),
        plugin="lmstudio",
    ),
    Engine(
        name="A llama-server",
        port=8080,
        path="/props",
        is_it=_has("default_generation_settings"),
        plugin="openai",
        key="plugins.openai.endpoints.llama-server.base_url",
        url="http://127.0.0.1:{port}/v1",
    ),
)


def look(reports: Iterable[Mapping[str, Any]], *, anywhere: bool = False) -> list[Offer]:
    """`offers` for this user, with the settings as they are in force here.

    `anywhere`: for another terminal than this one.
    """
    import os

    from cerberus_core.config import load
    from cerberus_core.errors import ConfigError
    from cerberus_core.platform import folders

    try:
        plugins = load(folders(), os.environ).config.plugins
    except ConfigError:
        return []  # a command that sets something would fail too
    return offers(reports, plugins, Path.home(), command=command_as_typed(anywhere=anywhere))


def offers(
    reports: Iterable[Mapping[str, Any]],
    plugins: Mapping[str, Any],
    home: Path,
    engines: Sequence[Engine] = ENGINES,
    command: str | None = None,
) -> list[Offer]:
    """What could be taken in and isn't yet. Blocking, for half a second or so.

    `reports` are of the plugins, `plugins` their settings, `command` is how to type `cerberus`.
    """
    command = command or command_as_typed()
    states = {report["name"]: report for report in reports}
    wanted = [one for one in engines if not _is_known(one, states, plugins)]
    with ThreadPoolExecutor(max_workers=max(len(wanted), 1)) as pool:
        runs = list(pool.map(answers, wanted))
    found = [
        _offer(one, states, command) for one, is_there in zip(wanted, runs, strict=True) if is_there
    ]
    if states.get("llamacpp", {}).get("state") != "blocked":
        found += _folder_offer(gguf_folders(home), plugins, command)
    return found


def answers(engine: Engine) -> bool:
    """Whether it runs on its port. Blocking."""
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=LIMIT_S)
    try:
        connection.request("GET", engine.path)
        answer = connection.getresponse()
        body = answer.read(1 << 20)
        return answer.status == 200 and engine.is_it(json.loads(body))
    except (OSError, ValueError, http.client.HTTPException, RecursionError):
        return False
    finally:
        connection.close()


def gguf_folders(home: Path, platform: str = sys.platform) -> list[tuple[str, Path]]:
    """(program, folder) of those that are there and hold a GGUF file. Blocking."""
    apps = home / (
        "Library/Application Support"
        if platform == "darwin"
        else "AppData/Roaming"
        if platform == "win32"
        else ".local/share"
    )
    usual = [
        ("LM Studio", home / ".lmstudio" / "models"),
        ("LM Studio", home / ".cache" / "lm-studio" / "models"),
        ("llama.cpp", home / ".cache" / "llama.cpp"),
        ("Jan", apps / "Jan" / "data" / "llamacpp" / "models"),
        ("Jan", home / "jan" / "models"),
        ("GPT4All", apps / "nomic.ai" / "GPT4All"),
    ]
    return [(program, folder) for program, folder in usual if _has_gguf(folder)]


def _has_gguf(folder: Path) -> bool:
    try:
        for number, file in enumerate(folder.rglob("*")):
            if file.suffix.lower() == ".gguf":
                return True
            if number >= MOST_FILES:
                break
    except OSError:
        return False
    return False


def _is_known(
    engine: Engine, states: Mapping[str, Mapping[str, Any]], plugins: Mapping[str, Any]
) -> bool:
    """Taken in already, or not wanted."""
    report = states.get(engine.plugin)
    if report is not None and report["state"] != "loaded":
        return True
    if engine.plugin != "openai":
        return report is not None and bool(report["provides"])
    endpoints = plugins.get("openai", {}).get("endpoints", {})
    port = f":{engine.port}"
    return any(port in str(endpoint.get("base_url")) for endpoint in endpoints.values())


def _offer(engine: Engine, states: Mapping[str, Mapping[str, Any]], command: str) -> Offer:
    what = f"{engine.name} runs on port {engine.port}"
    if engine.plugin not in states:
        return Offer(what=what, command=install_as_typed(f"cerberus-{engine.plugin}"))
    url = engine.url.format(port=engine.port)
    return Offer(what=what, command=f"{command} config set {engine.key} {url}")


def _folder_offer(
    found: list[tuple[str, Path]], plugins: Mapping[str, Any], command: str
) -> list[Offer]:
    """One for all: each would write over the one before."""
    known = [str(folder) for folder in plugins.get("llamacpp", {}).get("folders", [])]
    there = [Path(folder).expanduser() for folder in known]
    fresh = [
        (program, folder)
        for program, folder in found
        if not any(folder.is_relative_to(outer) for outer in there)
    ]
    if not fresh:
        return []
    value = json.dumps([*known, *[str(folder) for _, folder in fresh]], ensure_ascii=False)
    quoted = value.replace("'", "'\\''")
    programs = " and ".join(dict.fromkeys(program for program, _ in fresh))
    return [
        Offer(
            what=f"There are GGUF files of {programs}: {', '.join(str(f) for _, f in fresh)}",
            command=f"{command} config set plugins.llamacpp.folders '{quoted}'",
        )
    ]
