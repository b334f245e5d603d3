"""Fixtures of the core's tests: a whole daemon in this process, on real sockets."""

import json
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import attrs
import blockbuster
import httpx
import pytest

from cerberus_core import config as settings
from cerberus_core import daemon
from cerberus_core.platform import Clock, Folders
from cerberus_core.testing import ScriptedServer
from cerberus_core.values import Record

SCANNED = [
    name
    for name in (
        "cerberus_core",
        "cerberus_amd",
        "cerberus_llamacpp",
        "cerberus_lmstudio",
        "cerberus_nvidia",
        "cerberus_ollama",
        "cerberus_openai",
        "cerberus_rapl",
        "cerberus_hello",
    )
    if find_spec(name)
]
"""What must not block the loop; a plugin's folder may be gone."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test has recorded as its `table` is shown, whether it passed or not."""
    for kind in ("passed", "failed"):
        for report in terminalreporter.stats.get(kind, ()):
            for name, text in getattr(report, "user_properties", ()):
                if name == "table" and report.when == "call":
                    terminalreporter.section(report.nodeid)
                    terminalreporter.write_line(str(text))


@pytest.fixture(autouse=True)
def blocking_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Code of Cerberus that blocks the event loop fails the test, even if somebody
    swallowed the exception. A test that provokes it clears the list.

    Which calls count as blocking is blockbuster's list; `flock` and `getaddrinfo`
    are not on it.
    """
    calls: list[str] = []

    class Recorded(blockbuster.BlockingError):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            calls.append(name + "\n" + "".join(traceback.format_stack()[-12:-2]))

    monkeypatch.setattr("blockbuster.blockbuster.BlockingError", Recorded)
    with blockbuster.blockbuster_ctx(scanned_modules=SCANNED) as found:
        found.functions["os.path.abspath"].deactivate()  # text, unless the path is relative
        for function in found.functions.values():
            # A traceback in the log reads source files; faults are rare enough.
            function.can_block_in("structlog/dev.py", "__call__")
            # A test that makes its files is no daemon.
            for maker in ("write_gguf", "copy_gguf", "_folder"):
                function.can_block_in("cerberus_llamacpp/testing.py", maker)
        yield calls
    assert not calls, f"{len(calls)} blocking calls in the event loop, the first: {calls[0]}"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@attrs.define(kw_only=True)
class Box:
    """A running daemon, and a client that has its token."""

    url: str
    token: str
    folders: Folders
    http: httpx.AsyncClient

    async def records(self, count: int = 1) -> list[Record]:
        """The newest `count` records, once that many requests have ended."""
        with anyio.fail_after(10):
            while True:
                answer = await self.http.get("/api/requests", params={"limit": count})
                rows = answer.json()["recent"]
                if len(rows) >= count and not answer.json()["live"]:
                    return [_record(row) for row in rows]
                await anyio.sleep(0.01)

    async def record(self) -> Record:
        """The newest record."""
        return (await self.records())[0]


def _record(row: dict[str, Any]) -> Record:
    import msgspec

    return msgspec.convert(row, Record)


StartBox = Callable[..., AbstractAsyncContextManager[Box]]


@asynccontextmanager
async def running_box(
    folder: Path,
    config: str = "",
    *,
    clock: Clock | None = None,
    prepare: Callable[[Folders], None] = lambda _: None,
) -> AsyncIterator[Box]:
    """`cerberus serve` on a free port with `config` as its config.toml.

    `prepare` may put files into its folders before.
    """
    folders = Folders(folder / "config", folder / "data")
    folders.config.mkdir(parents=True, exist_ok=True)
    folders.config_file.write_text(config)
    prepare(folders)
    listening, stop = anyio.Event(), anyio.Event()
    url = ""

    def on_listening(told: daemon.Listening) -> None:
        nonlocal url
        url = told.url
        listening.set()

    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await daemon.serve(
                folders, port=0, env={}, on_listening=on_listening, stop=stop, clock=clock
            )

        tasks.start_soon(serve)
        with anyio.fail_after(30):
            await listening.wait()
        token = (await anyio.to_thread.run_sync(settings.load, folders, {})).config.server.token
        assert token is not None
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
            yield Box(url=url, token=token, folders=folders, http=http)
        stop.set()


@pytest.fixture
def start_box(tmp_path: Path) -> StartBox:
    """`async with start_box(config) as box:`"""

    def start(config: str = "", **more: Any) -> AbstractAsyncContextManager[Box]:
        return running_box(tmp_path, config, **more)

    return start


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedServer]:
    """A scripted endpoint; in the config of `endpoint(upstream)` its model is `up/m`."""
    async with ScriptedServer() as server:
        yield server


def endpoint(server: ScriptedServer, *, models: list[str] | None = None, more: str = "") -> str:
    """Config with the scripted server as the endpoint `up`. `more` are lines of its table."""
    return (
        # What is metered where the tests run must not matter.
        'blocked_plugins = ["llamacpp", "hello", "amd", "nvidia", "rapl"]\n'
        "[plugins.openai.endpoints.up]\n"
        f'base_url = "{server.base_url}"\n'
        f"models = {json.dumps(models or ['m'])}\n{more}\n"
    )


@pytest.fixture(scope="session")
def starter_model(pytestconfig: pytest.Config) -> Path:
    testing = pytest.importorskip("cerberus_llamacpp.testing")
    return testing.starter_file(pytestconfig.rootpath / ".cache" / "models")
