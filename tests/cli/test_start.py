"""What commands import: the quick ones nothing heavy, `--help` no plugin."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from cerberus_core.cli import blink, parser
from cerberus_core.cli.daemon_client import DaemonClient
from cerberus_core.errors import NotFound
from tests.cli.conftest import Home
from tests.loading.conftest import Site
from tests.processes import DaemonProcess

HEAVY = {
    "aiohttp", "anyio", "asyncio", "attr", "attrs", "cattrs", "email", "http.client", "httpx",
    "litestar", "msgspec", "pluggy", "pydantic", "rich", "ssl", "stevedore", "structlog",
    "tomlkit", "uvicorn", "uvloop",
}  # fmt: skip

_PROBE = """
import json, sys
from cerberus_core import cli
try:
    cli.main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
sys.stderr.write(json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


def modules_after(env: dict[str, str], *args: str) -> set[str]:
    """What is imported when the command has run."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROBE, *args],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said = json.loads(ended.stderr.splitlines()[-1])
    assert said["code"] == 0, ended.stderr
    return set(said["modules"])


@pytest.mark.parametrize("args", [["version"], ["token"], ["status"], ["status", "--json"]])
def test_the_quick_commands_import_nothing_heavy(served: DaemonProcess, args: list[str]) -> None:
    imported = modules_after(served.env, *args)
    assert not imported & (HEAVY | {"click", "typer"})
    assert len(imported) < 150, "a blink"


@pytest.mark.parametrize("word", ["version", "token", "status"])
def test_the_quick_commands_are_the_same_through_the_parser(
    served: DaemonProcess, word: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in ("CERBERUS_CONFIG", "CERBERUS_DATA"):
        monkeypatch.setenv(name, served.env[name])
    said = []
    for run in (blink.run, parser.run):
        for args in ([word], [word, "--json"]):
            assert run(args) == 0
            said.append(re.sub(r"up .*|uptime_s.*", "", capsys.readouterr().out))
    assert said[:2] == said[2:]
    assert blink.run([word, "--help"]) is None
    assert blink.run([word, "--jsn"]) is None


@pytest.mark.parametrize("args", [["--help"], ["serve", "--help"], ["models", "--help"]])
def test_help_imports_no_plugin_and_no_server(home: Home, args: list[str]) -> None:
    imported = modules_after(home.env, *args)
    assert not imported & (HEAVY - {"asyncio", "ssl"})
    own = {name for name in imported if name.startswith("cerberus_")}
    assert {name.partition(".")[0] for name in own} == {"cerberus_core"}


def test_help_names_the_commands_of_plugins_without_importing_them(home: Home) -> None:
    site = Site(home.folder / "site")
    module = site.add("greet", "raise SystemExit('imported')", group="cerberus.commands")
    env = {**home.env, "PYTHONPATH": str(site.path)}
    shown = subprocess.run(
        [sys.executable, "-m", "cerberus_core", "--help"],
        env=env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert module not in modules_after(env, "--help")
    assert "greet" in shown.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_the_usual_shells(home: Home, shell: str) -> None:
    env = {**home.env, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(
        [sys.executable, "-m", "cerberus_core", "--show-completion", shell],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "_CERBERUS_COMPLETE" in shown.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("cerberus st", {"status"}),
        ("cerberus models ", {"ls", "pull", "load", "plan", "unload", "rm", "import"}),
    ],
)
def test_completion_offers_commands(home: Home, typed: str, offered: set[str]) -> None:
    env = {
        **home.env,
        "_CERBERUS_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    shown = subprocess.run(
        [sys.executable, "-m", "cerberus_core"],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert set(shown.stdout.split()) == offered, shown.stderr


def test_an_unknown_plugin_command_fails_in_words(home: Home) -> None:
    site = Site(home.folder / "site")
    site.add("greet", "import nowhere_to_be_found", group="cerberus.commands")
    home.env["PYTHONPATH"] = str(site.path)
    finished = home.cli("greet")
    assert finished.code == 1
    assert "nowhere_to_be_found" in finished.err


def test_status_without_the_light_way_is_the_same(served: DaemonProcess) -> None:
    """An answer that is not plain goes the long way round, and so do errors."""
    client = DaemonClient(served.folders)
    light = client._light_get("/api/plugins")
    assert light is not None
    assert json.loads(light) == client._json("GET", "/api/plugins")
    assert client._light_get("/api/nothing") is None
    assert client._light_get("/api/requests?x=ü") is None
    with pytest.raises(NotFound, match="Not Found"):
        client.get("/api/nothing")
