"""Each command against a running daemon: for a person, for a program, and when it goes wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cerberus_core import __version__
from cerberus_core.cli.parser import COMMANDS
from cerberus_core.testing import Reply, ScriptedServer
from tests.cli.conftest import Done
from tests.processes import DaemonProcess, install_plugin, run_cli

Cli = Callable[..., Done]


def parsed(finished: Done) -> Any:
    assert finished.code == 0, finished.err
    return json.loads(finished.out)


def told(finished: Done, code: int, *words: str) -> None:
    """It failed with `code`, in words and with a hint, and said nothing on stdout."""
    assert (finished.code, finished.out) == (code, "")
    first, _, hint = finished.err.strip().partition("\n  ")
    assert first.startswith("Error: ")
    assert hint, "says what to do"
    for word in words:
        assert word in finished.err


def test_status(cli: Cli, served: DaemonProcess) -> None:
    shown = cli("status")
    assert (shown.code, shown.err) == (0, "")
    assert f"Cerberus {__version__} at {served.url} (pid {served.process.pid})" in shown.out
    status = parsed(cli("status", "--json"))
    assert status["pid"] == served.process.pid
    assert status["url"] == served.url


def test_token(cli: Cli, served: DaemonProcess) -> None:
    assert cli("token").out == served.token + "\n"
    assert parsed(cli("token", "--json")) == {"token": served.token}


def test_version(cli: Cli) -> None:
    assert cli("version").out == f"{__version__}\n"
    assert parsed(cli("version", "--json")) == {"version": __version__}


def test_models_ls(cli: Cli) -> None:
    shown = cli("models", "ls")
    assert "up/m" in shown.out
    assert [row["id"] for row in parsed(cli("models", "ls", "--json"))["models"]] == ["up/m"]


def test_models_load_unload_and_rm_of_what_is_served_elsewhere(cli: Cli) -> None:
    assert "up/m is ready" in cli("models", "load", "m").out
    assert parsed(cli("models", "load", "up/m", "--json"))["state"] == "ready"
    told(cli("models", "unload", "up/m"), 1, "served elsewhere")
    told(cli("models", "rm", "--yes", "up/m"), 1, "up can't remove models")


@pytest.mark.parametrize("verb", ["load", "unload", "rm"])
def test_an_unknown_model_is_a_4_and_near_names_are_told(cli: Cli, verb: str) -> None:
    for yes in ([], ["--yes"]) if verb == "rm" else ([],):
        finished = cli("models", verb, *yes, "up/mm")
        assert (finished.code, finished.out) == (4, "")
        assert "no model named 'up/mm'" in finished.err
        assert "Did you mean up/m?" in finished.err


def test_chat_answers_and_tells_the_speed(cli: Cli) -> None:
    shown = cli("chat", "hello there")
    assert (shown.code, shown.out) == (0, "hello there\n")
    assert "2 tokens" in shown.err
    answer = parsed(cli("chat", "-m", "m", "hello", "--json"))
    assert (answer["model"], answer["text"], answer["stopped"]) == ("m", "hello", False)
    assert answer["usage"]["completion_tokens"] == 2


def test_chat_takes_what_is_piped_in_and_a_system_prompt(
    cli: Cli, scripted: ScriptedServer
) -> None:
    shown = cli("chat", "--system", "Be brief.", stdin=None, input="from a pipe\n")
    assert shown.out == "from a pipe\n"
    assert scripted.requests[-1].json()["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "from a pipe"},
    ]
    for nothing in (cli("chat", stdin=None, input=" \n"), cli("chat", ""), cli("chat", " ")):
        told(nothing, 2, "nothing to ask")


def test_chat_with_a_model_that_is_not_there(cli: Cli) -> None:
    finished = cli("chat", "-m", "nope", "hello")
    assert finished.code == 4
    assert "'nope'" in finished.err


def test_an_error_of_the_endpoint_is_told_with_its_hint(cli: Cli, scripted: ScriptedServer) -> None:
    scripted.reply = Reply.json({"error": {"message": "too long"}}, status=400)
    finished = cli("chat", "hello")
    assert finished.code == 2
    assert "too long" in finished.err


def test_usage_by_model_and_the_last_requests(cli: Cli) -> None:
    cli("chat", "hello")
    assert "up/m" in cli("usage").out
    rows = parsed(cli("usage", "--since", "1h", "--json"))["models"]
    assert {row["model"]: row["requests"] for row in rows}["up/m"] >= 1
    assert "200" in cli("usage", "--last", "3").out
    [record] = parsed(cli("usage", "--last", "1", "--json"))["requests"]
    assert "up/m answered" in cli("why", record["id"]).out
    assert parsed(cli("why", record["id"], "--json"))["id"] == record["id"]
    told(cli("why", "nothing"), 4, "no finished request 'nothing'")
    assert record["client"] == "cerberus-cli"
    told(cli("usage", "--since", "yesterday"), 2, "'yesterday'", "30m")


def test_plugins(cli: Cli) -> None:
    shown = cli("plugins").out
    assert "✓ openai (cerberus-openai" in shown
    assert "○ llamacpp" in shown
    rows = parsed(cli("plugins", "--json"))["plugins"]
    assert {row["name"]: row["state"] for row in rows}["openai"] == "loaded"


def test_a_plugin_that_came_after_the_daemons_start_is_named(
    served: DaemonProcess, tmp_path: Path
) -> None:
    assert served.cli("plugins").stderr == ""
    more_env = install_plugin(tmp_path, "late", "")
    late = run_cli({**served.env, **more_env}, "plugins")
    assert "late" not in late.stdout
    assert late.stderr.startswith("! late 1.0 is installed, but not in the daemon that runs")


def test_doctor_finds_no_fault(cli: Cli, served: DaemonProcess) -> None:
    shown = cli("doctor")
    assert shown.code == 0, shown.out
    assert f"The daemon answers at {served.url}" in shown.out
    findings = parsed(cli("doctor", "--json"))["findings"]
    assert {"ok"} <= {finding["state"] for finding in findings} <= {"ok", "note"}


def test_url_is_a_link_that_works_once(cli: Cli, served: DaemonProcess) -> None:
    shown = cli("url")
    link = shown.out.strip()
    page, code = link.split("/#code=")
    assert page == served.url
    assert "works once" in shown.err
    assert served.token not in shown.out + shown.err
    with httpx.Client(base_url=page) as browser:
        assert browser.get("/").status_code == 200
        assert browser.post("/api/login", json={"code": code}).status_code == 204
        assert browser.get("/api/status").status_code == 200
    assert httpx.post(f"{page}/api/login", json={"code": code}).status_code == 401
    assert parsed(cli("url", "--json"))["url"].startswith(served.url)


def test_errors_are_json_too_where_json_was_asked_for(cli: Cli) -> None:
    finished = cli("models", "load", "nope", "--json")
    assert (finished.code, finished.out) == (4, "")
    error = json.loads(finished.err)["error"]
    assert error["code"] == "model_not_found"
    assert error["hint"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["statu"], "No such command 'statu'. Did you mean 'status'?"),
        (["models", "lss"], "Did you mean 'ls'?"),
        (["status", "--nope"], "--nope"),
        (["usage", "--last", "0"], "'--last': 0 is not between 1 and 1000"),
        (["serve", "--port", "99999"], "'--port': 99999 is not between 0 and 65535"),
        (["usage", "--last", "many"], "'--last': 'many' is not a whole number"),
        (["models", "load"], "Missing argument"),
        (["usage", "--since", "yesterday"], "'yesterday'"),
    ],
)
def test_a_wrong_call_is_told_in_plain_words_and_as_json(
    cli: Cli, args: list[str], words: str
) -> None:
    shown = cli(*args)
    assert (shown.code, shown.out) == (2, "")
    assert words in shown.err
    as_json = cli(*args, "--json")
    assert (as_json.code, as_json.out) == (2, "")
    error = json.loads(as_json.err)["error"]
    assert error["code"] == "usage"
    assert words in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_and_json(cli: Cli, command: str) -> None:
    shown = cli(command, "--help")
    assert (shown.code, shown.err) == (0, "")
    if command not in ("models", "config", "keys"):
        assert "--json" in shown.out


@pytest.mark.parametrize(
    "args", [["nope"], ["status", "--nope"], ["usage", "--last", "0"], ["usage", "--last", "many"],
             ["models"], ["models", "load"], ["models", "nope"], ["config", "set", "a"], []],
)  # fmt: skip
def test_a_wrong_call_is_a_2_that_shows_how(cli: Cli, args: list[str]) -> None:
    finished = cli(*args)
    assert finished.code == 2
    assert "Usage: cerberus" in finished.out + finished.err
