"""`cerberus serve`: where it listens, what it says, and why it doesn't start."""

import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cerberus_core.cli.address import parse_address
from cerberus_core.cli.greeting import greeting
from cerberus_core.cli.typed import command_as_typed
from cerberus_core.errors import CerberusError
from cerberus_core.testing import ScriptedServer
from tests.cli.conftest import Home
from tests.conftest import endpoint
from tests.processes import DaemonProcess

PLAIN = 'blocked_plugins = ["llamacpp", "hello"]\n'


@contextmanager
def serving(
    home: Home, *args: str, cwd: Path | None = None, until: str = "  stop"
) -> Iterator[list[str]]:
    """A daemon as a person starts it; the lines of its greeting, to one that starts so."""
    command = [sys.executable, "-m", "cerberus_core", "serve", *args]
    with subprocess.Popen(
        command, env=home.env, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:  # arrives at once, though stdout is a pipe
            lines.append(line.rstrip("\n"))
            if line.startswith(until):
                break
        try:
            yield lines
        finally:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
            assert "Traceback" not in said
            assert process.returncode == 0, said


# The address, as people write it (C06).


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("8000", None, 8000), (":8000", None, 8000), ("[::1]:8000", "::1", 8000), ("::1", "::1", None),
     ("host:80", "host", 80), ("0.0.0.0", "0.0.0.0", None), ("[::1]", "::1", None)],
)  # fmt: skip
def test_c06_every_usual_form_is_read(text: str, host: str | None, port: int | None) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    ["host:99999", ":abc", "host:", "http://host", "a/b", "[::1", "u@h:1", "9" * 99, "-1:2:"],
)  # fmt: skip
def test_c06_what_is_no_address_is_a_2_with_an_example(home: Home, text: str) -> None:
    with pytest.raises(CerberusError):
        parse_address(text)
    finished = home.cli("serve", f"--host={text}")
    assert finished.code == 2
    assert finished.err.startswith("Error: ")
    assert "127.0.0.1" in finished.err
    assert "Traceback" not in finished.err


def free_port(family: socket.AddressFamily = socket.AF_INET) -> int:
    with socket.create_server(
        ("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family
    ) as one:
        return int(one.getsockname()[1])


@pytest.mark.parametrize("form", ["{port}", ":{port}", "[::1]:{port}", "localhost:{port}"])
def test_c06_it_listens_where_it_is_told(home: Home, form: str) -> None:
    home.write(PLAIN)
    port = free_port(socket.AF_INET6 if "::1" in form else socket.AF_INET)
    with serving(home, "--host", form.format(port=port)) as lines:
        assert lines[0].endswith(f":{port}")
        assert home.cli("status").code == 0
        assert json.loads(home.cli("status", "--json").out)["url"] == lines[0].split()[-1]


def test_c06_a_port_in_use_is_named(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        finished = home.cli("serve", "--port", str(port))
    assert finished.code == 1
    assert f"Port {port} is in use on 127.0.0.1" in finished.err
    assert "Traceback" not in finished.err
    assert "--port" in finished.err


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid", "2001:db8::1", "a" * 300])
def test_c06_an_address_that_is_not_of_this_machine(home: Home, host: str) -> None:
    finished = home.cli("serve", "--host", host, "--port", "0")
    assert finished.code == 1
    assert "Error: " in finished.err
    assert "127.0.0.1" in finished.err
    assert "Traceback" not in finished.err


def test_the_environment_sets_the_port_and_the_call_wins(home: Home) -> None:
    home.write(PLAIN)
    home.env["CERBERUS_SERVER__PORT"] = str(free_port())
    with serving(home) as lines:
        assert lines[0].endswith(":" + home.env["CERBERUS_SERVER__PORT"])
    other = str(free_port())
    with serving(home, "--port", other) as lines:
        assert lines[0].endswith(":" + other)


# What keeps it from starting.


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[server]\nport = \n", 2, "not valid TOML"),
        ("[server]\nport = 1\nport = 2\n", 3, ""),
        ("[server]\n\nport = 'many'\n", 3, "server.port"),
        ("[server\n", 1, ""),
    ],
)
def test_c03_a_broken_config_stops_the_start_with_file_and_line(
    home: Home, text: str, line: int, words: str
) -> None:
    home.write(text)
    for args in (["serve", "--port", "0"], ["models", "ls"], ["config", "show"], ["token"]):
        finished = home.cli(*args)
        assert finished.code == 2, args
        assert f"{home.config_file}:{line}: " in finished.err
        assert words in finished.err
    assert home.config_file.read_text() == text


@pytest.mark.parametrize(
    ("text", "words"), [("", "is empty"), ("[server]\nprot = 1\n", "server.prot")]
)
def test_c03_an_empty_file_and_an_unknown_key_are_warnings(
    home: Home, text: str, words: str
) -> None:
    home.write(text)
    home.env["CERBERUS_BLOCKED_PLUGINS"] = '["llamacpp", "hello"]'
    with serving(home, "--port", "0"):
        # the first start has put its token into the file
        status = json.loads(home.cli("status", "--json").out)
        assert any(words in warning for warning in status["warnings"])


def test_one_daemon_owns_a_data_folder(served: DaemonProcess) -> None:
    second = served.cli("serve", "--port", "0")
    assert (second.returncode, second.stdout) == (1, "")
    assert f"Another daemon owns {served.folders.data} and listens at {served.url}" in second.stderr
    assert "cerberus status" in second.stderr
    assert served.cli("status").returncode == 0, "the first is not disturbed"


# The greeting.


def test_the_greeting_is_ready_to_copy() -> None:
    text = greeting("http://127.0.0.1:7733", 'org/it\'s "m"', "cerberus")
    assert text.splitlines()[0] == "Cerberus listens at http://127.0.0.1:7733"
    for line in ('  chat      cerberus chat "', "  page      cerberus url ", "  stop      Ctrl-C"):
        assert line in text
    [curl] = [line[12:] for line in text.splitlines() if line.startswith("  curl")]
    words = shlex.split(curl.replace("$(cerberus token)", "T"))
    assert words[:4] == [
        "curl",
        "http://127.0.0.1:7733/v1/chat/completions",
        "-H",
        "Authorization: Bearer T",
    ]
    assert json.loads(words[5])["model"] == 'org/it\'s "m"'


def test_without_a_model_the_greeting_says_how_to_get_one() -> None:
    text = greeting("http://127.0.0.1:7733", None, ".venv/bin/cerberus")
    assert ".venv/bin/cerberus models pull starter" in text
    assert "curl " not in text


def test_the_command_is_named_as_the_person_must_type_it(tmp_path: Path) -> None:
    script = tmp_path / "clone" / ".venv" / "bin" / "cerberus"
    script.parent.mkdir(parents=True)
    script.write_text("")
    foreign = tmp_path / "cerberus"
    foreign.write_text("")
    clone = tmp_path / "clone"
    here = str(script)
    assert command_as_typed(here, here, clone) == "cerberus"
    assert command_as_typed(here, "", clone) == ".venv/bin/cerberus"
    assert command_as_typed(here, str(foreign), clone) == ".venv/bin/cerberus"
    assert command_as_typed(here, "", clone / ".venv" / "bin") == "./cerberus"
    assert command_as_typed(here, "", tmp_path / "elsewhere") == here
    assert command_as_typed(here, "", clone, anywhere=True) == here
    assert command_as_typed(".venv/bin/cerberus", "", clone, anywhere=True) == here
    assert command_as_typed(here, here, clone, anywhere=True) == "cerberus"
    spaced = tmp_path / "a b"
    clone.rename(spaced)
    assert command_as_typed(str(spaced / ".venv/bin/cerberus"), "", Path("/")).startswith("'")


def test_the_lines_of_the_greeting_work_as_they_stand(home: Home, scripted: ScriptedServer) -> None:
    home.write(endpoint(scripted))
    home.env["PATH"] = "/usr/bin:/bin"  # no `cerberus` there
    script = Path(sys.executable).with_name("cerberus")
    elsewhere = home.folder / "elsewhere"
    elsewhere.mkdir()
    with serving(home, "--port", "0", cwd=script.parents[2]) as lines:
        said = {line.split()[0]: line[12:].partition("   (")[0] for line in lines[1:]}

        def typed(line: str) -> str:
            shell = subprocess.run(
                ["bash", "-c", line], env=home.env, cwd=elsewhere, timeout=60,
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            return shell.stdout

        assert typed(said["chat"]) == "Why is the sky blue?\n"
        answer = json.loads(typed(said["curl"]))
        assert answer["choices"][0]["message"]["content"] == "Hello"
        assert typed(said["page"]).startswith("http://127.0.0.1:")


def test_the_json_greeting_is_one_document(served: DaemonProcess) -> None:
    # start_daemon read the address from its file; the greeting still waits in the pipe.
    assert served.process.stdout is not None
    pipe = served.process.stdout.fileno()
    text = b""
    while b"}" not in text and select.select([pipe], [], [], 10)[0]:
        text += os.read(pipe, 65536)
    assert json.loads(text) == {"url": served.url, "model": "up/m", "warnings": []}
