"""A daemon of its own process and a scripted endpoint behind it, shared by a file's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import anyio.from_thread
import attrs
import pytest

from cerberus_core.testing import ScriptedServer
from cerberus_core.testing.scripted import echo
from tests.conftest import endpoint
from tests.processes import DaemonProcess, clean_env, run_cli, start_daemon, stop_daemon


@attrs.frozen
class Home:
    """A user's folder in which no daemon runs."""

    folder: Path
    env: dict[str, str]

    @property
    def config_file(self) -> Path:
        return self.folder / "config" / "config.toml"

    def write(self, config: str) -> None:
        self.config_file.parent.mkdir(exist_ok=True)
        self.config_file.write_text(config)

    def cli(self, *args: str, **more: object) -> "Done":
        return done(run_cli(self.env, *args, **more))


@attrs.frozen
class Done:
    """How a command ended. It never shows a traceback."""

    code: int
    out: str
    err: str


def done(finished: object) -> Done:
    code, out, err = (getattr(finished, name) for name in ("returncode", "stdout", "stderr"))
    assert "Traceback" not in out + err, err
    return Done(code, out, err)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, clean_env(tmp_path))


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedServer]:
    """The endpoint `up`, in a thread of its own."""
    with anyio.from_thread.start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(ScriptedServer(models=["m"])) as server:
            yield server


@pytest.fixture(scope="module")
def shared_daemon(
    scripted: ScriptedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DaemonProcess]:
    running = start_daemon(tmp_path_factory.mktemp("daemon"), endpoint(scripted))
    yield running
    stop_daemon(running)


@pytest.fixture
def served(shared_daemon: DaemonProcess, scripted: ScriptedServer) -> DaemonProcess:
    """The running daemon, its endpoint echoing again."""
    scripted.reply = echo
    assert shared_daemon.process.poll() is None
    return shared_daemon


@pytest.fixture
def cli(served: DaemonProcess) -> Callable[..., Done]:
    """`cli("status", "--json")` against the running daemon."""
    return lambda *args, **more: done(served.cli(*args, **more))
