"""Other engines and their folders are found and offered, quickly and with a ready command."""

import http.server
import json
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from cerberus_core.cli.nearby import ENGINES, Engine, answers, gguf_folders, offers
from cerberus_core.cli.typed import command_as_typed
from cerberus_core.testing import ScriptedServer
from tests.cli.conftest import Home
from tests.cli.test_serve import serving
from tests.conftest import endpoint

COMMAND = command_as_typed()
OLLAMA, LM_STUDIO, LLAMA = ENGINES
LOADED = {"state": "loaded", "provides": []}
REPORTS = [{"name": name, **LOADED} for name in ("ollama", "lmstudio", "openai", "llamacpp")]


class Answering:
    def __init__(self) -> None:
        self.body = b"{}"
        answering = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(answering.body)

            def log_message(self, *_: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def answering() -> Iterator[Answering]:
    answering = Answering()
    yield answering
    answering.server.shutdown()
    answering.server.server_close()


def on(engine: Engine, port: int) -> Engine:
    return attrs.evolve(engine, port=port)


@pytest.mark.parametrize(
    ("engine", "body"),
    [
        (OLLAMA, {"version": "0.13.0"}),
        (LM_STUDIO, {"object": "list", "data": []}),
        (LLAMA, {"default_generation_settings": {"n_ctx": 4096}}),
    ],
)
def test_an_engine_is_known_by_what_it_says(
    answering: Answering, engine: Engine, body: Any
) -> None:
    engine = on(engine, answering.port)
    answering.body = json.dumps(body).encode()
    assert answers(engine)
    for other in (b"{}", b"[]", b"<html>", b"", b"[" * 100_000):
        answering.body = other
        assert not answers(engine)


def test_nobody_and_somebody_silent_are_no_engine_and_cost_little() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        assert not answers(on(OLLAMA, port))
        silent.listen()
        began = time.monotonic()
        assert not answers(on(OLLAMA, port))
        assert time.monotonic() - began < 2


def test_the_offer_is_a_command_that_is_ready(answering: Answering, tmp_path: Path) -> None:
    answering.body = b'{"version": "1", "default_generation_settings": {}}'
    port = answering.port
    engines = [on(OLLAMA, port), on(LLAMA, port)]
    first, second = offers(REPORTS, {}, tmp_path, engines)
    assert first.what == f"Ollama runs on port {port}"
    assert first.command == (
        f"{COMMAND} config set plugins.ollama.base_url http://127.0.0.1:{port}"
    )
    assert second.command == (
        f"{COMMAND} config set plugins.openai.endpoints.llama-server.base_url "
        f"http://127.0.0.1:{port}/v1"
    )
    [missing] = offers([], {}, tmp_path, engines[:1])
    assert "cerberus-ollama" in missing.command or "scripts/serve" in missing.command


@pytest.mark.parametrize(
    ("engine", "report", "plugins"),
    [
        (OLLAMA, {"name": "ollama", "state": "loaded", "provides": ["backend ollama"]}, {}),
        (OLLAMA, {"name": "ollama", "state": "blocked", "provides": []}, {}),
        (LLAMA, {"name": "openai", **LOADED}, {"openai": {"endpoints": {"x": {"base_url": ""}}}}),
    ],
)
def test_what_is_taken_in_or_not_wanted_is_not_offered(
    answering: Answering, tmp_path: Path, engine: Engine, report: Any, plugins: Any
) -> None:
    answering.body = b'{"version": "1", "default_generation_settings": {}}'
    for one in plugins.get("openai", {}).get("endpoints", {}).values():
        one["base_url"] = f"http://localhost:{answering.port}/v1"
    assert offers([report], plugins, tmp_path, [on(engine, answering.port)]) == []


def gguf(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "x.GGUF").write_bytes(b"GGUF")
    return folder


@pytest.mark.parametrize(
    ("platform", "jan"),
    [
        ("linux", ".local/share/Jan/data/llamacpp/models"),
        ("darwin", "Library/Application Support/Jan/data/llamacpp/models"),
    ],
)
def test_folders_of_other_programs_are_found_where_they_hold_a_model(
    tmp_path: Path, platform: str, jan: str
) -> None:
    assert gguf_folders(tmp_path, platform) == []
    (tmp_path / ".cache" / "llama.cpp").mkdir(parents=True)
    studio = gguf(tmp_path / ".lmstudio" / "models" / "org").parent
    place = gguf(tmp_path / jan)
    assert gguf_folders(tmp_path, platform) == [("LM Studio", studio), ("Jan", place)]


def test_folders_are_offered_together_with_those_there_are(tmp_path: Path) -> None:
    home = tmp_path / "it's me"
    studio = gguf(home / ".lmstudio" / "models")
    cache = gguf(home / ".cache" / "llama.cpp")
    plugins = {"llamacpp": {"folders": ["~/old"]}}
    [offer] = offers(REPORTS, plugins, home, [])
    assert "LM Studio and llama.cpp" in offer.what
    words = shlex.split(offer.command)
    assert words[-4:-1] == ["config", "set", "plugins.llamacpp.folders"]
    assert json.loads(words[-1]) == ["~/old", str(studio), str(cache)]
    plugins = {"llamacpp": {"folders": [str(home)]}}
    assert offers(REPORTS, plugins, home, []) == []


def test_the_first_look_offers_what_is_there(home: Home) -> None:
    pytest.importorskip("cerberus_llamacpp")
    home.write('blocked_plugins = ["hello", "ollama", "lmstudio", "openai"]\n')
    folder = gguf(home.folder / ".lmstudio" / "models")
    for args in (["models", "ls"], ["doctor"]):
        assert f"plugins.llamacpp.folders '[\"{folder}\"]'" in home.cli(*args).out
    [offer] = json.loads(home.cli("models", "ls", "--json").out)["offers"]
    assert f"plugins.llamacpp.folders '[\"{folder}\"]'" in offer["command"]


@pytest.fixture
def neighbour(home: Home) -> Path:
    pytest.importorskip("cerberus_llamacpp")
    return gguf(home.folder / ".lmstudio" / "models")


BLOCKED = 'blocked_plugins = ["hello", "ollama", "lmstudio", "amd", "nvidia", "rapl"]\n'


def test_the_daemon_offers_it_once_it_listens(home: Home, neighbour: Path) -> None:
    home.write(BLOCKED)
    with serving(home, "--port", "0", until="  There are") as lines:
        assert lines[0].startswith("Cerberus listens at ")
        assert "  stop      Ctrl-C" in lines
        assert "GGUF files of LM Studio" in lines[-1]
        assert f"plugins.llamacpp.folders '[\"{neighbour}\"]'" in lines[-1]


def test_who_has_models_is_offered_nothing(
    home: Home, neighbour: Path, scripted: ScriptedServer
) -> None:
    look = [sys.executable, "-c", "from cerberus_core.cli.serve import _offer; _offer()"]
    for models, offered in ((["m"], True), (["m", "n"], False)):
        home.write(BLOCKED + endpoint(scripted, models=models).partition("\n")[2])
        with serving(home, "--port", "0"):
            said = subprocess.run(look, env=home.env, capture_output=True, text=True, check=True)
            assert (str(neighbour) in said.stdout) is offered
