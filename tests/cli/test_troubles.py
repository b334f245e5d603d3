"""What is wrong with backends and settings is told wherever it matters, and told once."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Done, Home, done
from tests.processes import DaemonProcess, refusing_port, start_daemon, stop_daemon

SETTINGS = """
blocked_plugins = ["hello"]
default_model = "qwne"

[models."acme/m"]
ttl_s = 5
aliases = ["cloud"]

[models."llamacpp/nothing"]
ttl_s = 5

[plugins.llamacpp]
folders = ["/no/such/folder"]

[plugins.openai.endpoints.acme]
base_url = "http://127.0.0.1:{port}/v1"
api_key_env = "ACME_KEY"
"""
TOLD = [
    "/no/such/folder is no folder",
    "no model is named 'qwne'",
    '[models."llamacpp/nothing"]: no model has that id',
]


@pytest.fixture
def settings() -> Iterator[str]:
    with refusing_port() as port:
        yield SETTINGS.replace("{port}", str(port))


@pytest.fixture
def daemon(tmp_path: Path, settings: str) -> Iterator[DaemonProcess]:
    """It has the endpoint's key in its environment; the commands haven't."""
    running = start_daemon(tmp_path, settings, ACME_KEY="from-its-environment")
    del running.env["ACME_KEY"]
    yield running
    stop_daemon(running)


def test_a_running_daemon_tells_and_doctor_tells_what_the_daemon_sees(
    daemon: DaemonProcess,
) -> None:
    assert daemon.process.stdout is not None
    banner = daemon.process.stdout.read(1)
    while banner.count("{") != banner.count("}"):
        banner += daemon.process.stdout.read(1)
    status = json.loads(daemon.cli("status", "--json").stdout)
    for told in TOLD:
        assert any(told in warning for warning in json.loads(banner)["warnings"]), told
        assert any(told in warning for warning in status["warnings"]), told
        assert told in daemon.cli("models", "ls").stderr
    doctor = done(daemon.cli("doctor"))
    assert doctor.code == 1, "an endpoint is down"
    assert doctor.err == ""
    lines = doctor.out.splitlines()
    assert len(lines) == len(set(lines)), "nothing twice"
    for told in [*TOLD, "✕ Backend acme: no answer from http://127.0.0.1"]:
        assert doctor.out.count(told) == 1
    assert "ACME_KEY" not in doctor.out, "the daemon has it"


def test_asking_for_a_model_of_an_endpoint_that_is_down_tells_so(daemon: DaemonProcess) -> None:
    for name in ("acme/m", "cloud"):
        finished = done(daemon.cli("models", "load", name))
        assert finished.code == 1
        assert "acme: no answer from http://127.0.0.1" in finished.err
        assert "Is it running?" in finished.err
    answer = httpx.post(
        f"{daemon.url}/v1/chat/completions",
        headers=daemon.headers,
        json={"model": "acme/m", "messages": [{}]},
    )
    assert answer.status_code == 503
    assert "acme: no answer from" in answer.json()["error"]["message"]
    missing = done(daemon.cli("chat", "hi"))
    assert missing.code == 4
    assert "'qwne'" in missing.err


def lines_of(finished: Done) -> str:
    return finished.out + finished.err


def test_without_a_daemon_it_is_told_too_with_whose_environment(home: Home, settings: str) -> None:
    home.write(settings)
    shown = home.cli("models", "ls")
    for told in [*TOLD, "acme: The key of acme is not set"]:
        assert shown.err.count(told) == 1
    doctor = home.cli("doctor")
    assert (doctor.code, doctor.err) == (1, "")
    assert "this terminal's environment" in doctor.out
    for told in [*TOLD, "✕ Backend acme: The key of acme is not set"]:
        assert doctor.out.count(told) == 1
    home.env["ACME_KEY"] = "k"
    assert "no answer from" in lines_of(home.cli("doctor"))


def test_an_unknown_key_is_one_line_of_doctor(home: Home) -> None:
    home.write("[server]\nprot = 1\n[plugins.llamacpp]\nparalel = 1\n[plugins.lamacpp]\n")
    doctor = home.cli("doctor")
    assert doctor.err == ""
    for told in ("server.prot", "paralel;", "no plugin 'lamacpp' is installed"):
        assert doctor.out.count(told) == 1, doctor.out
    assert "llamacpp" in home.cli("models", "ls").err


def test_a_chat_with_a_default_model_that_is_not_there_says_whose_name_that_is(
    daemon: DaemonProcess,
) -> None:
    chat = done(daemon.cli("chat", "hi"))
    assert chat.code == 4
    assert "There is no model named 'qwne'" in chat.err
    assert "'qwne' is `default_model` of the settings." in chat.err
    named = done(daemon.cli("chat", "--model", "qwne", "hi"))
    assert "default_model" not in named.err, "here it came from the command line"
