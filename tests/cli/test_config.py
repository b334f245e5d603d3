"""`cerberus config`: shown, changed with its comments kept, wrong values refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Home
from tests.disks import fill, small_disk_at
from tests.processes import DaemonProcess, start_daemon, stop_daemon

FILE = """# my settings
[server]
port = 7000  # the old port

# the key of the cloud
[plugins.openai.endpoints.acme]
base_url = "https://acme.example/v1"
api_key = "sk-very-secret"
"""


def test_path_is_the_file_and_as_json_both_folders(home: Home) -> None:
    assert home.cli("config", "path").out == f"{home.config_file}\n"
    assert json.loads(home.cli("config", "path", "--json").out) == {
        "config": str(home.config_file),
        "data": str(home.folder / "data"),
    }


def test_show_is_toml_or_json_without_secrets(home: Home) -> None:
    import tomllib

    home.write(FILE)
    shown = tomllib.loads(home.cli("config", "show").out)
    assert shown["server"]["port"] == 7000
    assert shown["gateway"]["hold_s"] == 5.0
    assert shown["plugins"]["openai"]["endpoints"]["acme"]["api_key"] == "set"
    as_json = home.cli("config", "show", "--json").out
    assert json.loads(as_json)["server"]["token"] is None
    assert "sk-very-secret" not in as_json


def test_set_changes_one_value_and_keeps_every_comment(home: Home) -> None:
    home.write(FILE)
    done = home.cli("config", "set", "server.port", "8000")
    assert (done.code, done.err) == (0, "")
    assert "next start" in done.out
    assert home.config_file.read_text() == FILE.replace("7000", "8000")
    said = json.loads(home.cli("config", "set", 'models."a/b".ttl_s', "60", "--json").out)
    assert said == {"set": 'models."a/b".ttl_s', "file": str(home.config_file)}
    shown = json.loads(home.cli("config", "show", "--json").out)
    assert shown["models"]["a/b"]["ttl_s"] == 60


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("server.port", "many", "server.port"),
        ("server.port", "99999", "65535"),
        ("server.prot", "1", "server.port"),
        ("server", "1", "section"),
        ("gateway.hold_s", "-1", "gateway.hold_s"),
        ("nope.x", "1", "nope"),
        ("plugins.openai.endpoints.acme.base_url", "ftp://x", 'acme.base_url is "ftp://x"'),
        ("plugins.openai.endpoints.new.base_url", "notaurl", "expected an address such as"),
        ("plugins.openai.endpoints.acme.modles", "[]", "acme.models?"),
        ("plugins.llamacpp.parallel", "0", "a number of at least 1"),
        ("plugins.opnai.endpoints", "{}", "no plugin 'opnai' is installed"),
    ],
)
def test_what_is_wrong_is_a_2_and_the_file_stays(
    home: Home, key: str, value: str, words: str
) -> None:
    home.write(FILE)
    done = home.cli("config", "set", "--", key, value)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert home.config_file.read_text() == FILE


def test_a_plugins_setting_that_is_good_is_saved(home: Home) -> None:
    home.write(FILE)
    done = home.cli("config", "set", "plugins.openai.endpoints.acme.models", '["a"]')
    assert (done.code, done.err) == (0, "")
    assert home.config_file.read_text() == FILE + 'models = ["a"]\n'
    assert not (home.folder / "data").exists(), "the plugin made nothing"


def test_a_blocked_plugin_is_not_imported_to_check_its_settings(home: Home) -> None:
    home.write('blocked_plugins = ["llamacpp"]\n')
    done = home.cli("config", "set", "plugins.llamacpp.parallel", "2")
    assert done.code == 0
    assert "not checked" in done.err


def test_unset_takes_one_setting_out(home: Home) -> None:
    home.write(FILE)
    done = home.cli("config", "unset", "server.port")
    assert (done.code, done.err) == (0, "")
    assert home.config_file.read_text() == FILE.replace("port = 7000  # the old port\n", "")
    again = home.cli("config", "unset", "server.port", "--json")
    assert (again.code, again.out) == (4, "")
    assert json.loads(again.err)["error"]["code"] == "not_found"
    said = json.loads(
        home.cli("config", "unset", "plugins.openai.endpoints.acme.api_key", "--json").out
    )
    assert said == {
        "unset": "plugins.openai.endpoints.acme.api_key",
        "file": str(home.config_file),
    }
    assert "sk-very-secret" not in home.config_file.read_text()


def test_c03_a_broken_file_is_not_written_over(home: Home) -> None:
    home.write("[server\n")
    done = home.cli("config", "set", "server.port", "8000")
    assert done.code == 2
    assert f"{home.config_file}:1: " in done.err
    assert home.config_file.read_text() == "[server\n"


def test_on_a_full_disk_the_old_file_stays(home: Home) -> None:
    small_disk = home.folder / "config"
    with small_disk_at(small_disk):
        full_disk(home, small_disk)


def full_disk(home: Home, small_disk: Path) -> None:
    home.write(FILE)
    ballast = fill(small_disk)
    done = home.cli("config", "set", "server.port", "8000")
    assert done.code == 2
    assert "No space left" in done.err
    assert "as it was" in done.err
    assert home.config_file.read_text() == FILE
    assert sorted(p.name for p in small_disk.iterdir() if p.suffix == ".toml") == ["config.toml"]
    ballast.unlink()
    assert home.cli("config", "set", "server.port", "8000").code == 0


def test_diff_without_a_daemon_says_so_and_shows_the_file_against_the_defaults(
    home: Home,
) -> None:
    home.write(FILE)
    done = home.cli("config", "diff")
    assert done.code == 0
    assert "No daemon runs" in done.err
    assert "cerberus serve" in done.err
    assert "server.port: 7733 → 7000\n    needs a restart\n" in done.out
    assert "sk-very-secret" not in done.out
    found = json.loads(home.cli("config", "diff", "--json").out)
    assert (found["against"], found["file"]) == ("defaults", str(home.config_file))
    keys = [change["key"] for change in found["changes"]]
    assert keys == [
        "plugins.openai.endpoints.acme.api_key",
        "plugins.openai.endpoints.acme.base_url",
        "server.port",
    ]
    home.write("")
    assert "says nothing but the defaults" in home.cli("config", "diff").out


def test_a_mistake_is_a_2_of_diff_too(home: Home) -> None:
    home.write("[server]\nport = 'x'\n")
    done = home.cli("config", "diff")
    assert (done.code, done.out) == (2, "")
    assert "config.toml:2: server.port" in done.err


@pytest.fixture
def own_daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    running = start_daemon(tmp_path, 'blocked_plugins = ["llamacpp", "hello"]\n')
    yield running
    stop_daemon(running)


def test_what_is_set_is_taken_up_and_diff_shows_what_waits(own_daemon: DaemonProcess) -> None:
    cli = own_daemon.cli
    assert cli("config", "diff").stdout.endswith("says nothing but what the daemon runs with.\n")
    assert "The running daemon takes it up." in cli("config", "set", "engines.ttl_s", "60").stdout
    assert "next start" in cli("config", "set", "usage.keep", "10").stdout
    own = 'models."a/b".context'
    assert "when it loads the model" in cli("config", "set", own, "4096").stdout
    assert "no model has that id" not in cli("config", "reload").stderr
    assert cli("config", "diff").stdout == "usage.keep: 1000 → 10\n    needs a restart\n"
    status = json.loads(cli("status", "--json").stdout)
    assert any("after a restart: usage.keep" in line for line in status["warnings"])
    assert "after a restart: usage.keep" in cli("doctor").stdout


def test_a_file_that_is_not_in_place_yet_shows_what_it_would_do(
    own_daemon: DaemonProcess, tmp_path: Path
) -> None:
    cli, file = own_daemon.cli, tmp_path / "new.toml"
    before = own_daemon.folders.config_file.read_text()
    text = before + "[engines]\nttl_s = 60\n[usage]\nkeep = 10\n"
    file.write_text(text)
    shown = "engines.ttl_s: 600.0 → 60.0\n    applied at once"
    with file.open() as stdin:
        piped = cli("config", "diff", "-", stdin=stdin)
    for done in (cli("config", "diff", str(file)), piped):
        assert (done.returncode, done.stderr) == (0, "")
        assert shown in done.stdout
        assert "usage.keep: 1000 → 10\n    needs a restart\n" in done.stdout
    assert own_daemon.folders.config_file.read_text() == before
    assert json.loads(cli("config", "diff", "--json").stdout)["changes"] == []
    assert json.loads(cli("config", "diff", str(file), "--json").stdout)["file"] == str(file)
    file.write_text("[server]\nport = 'x'\n")
    wrong = cli("config", "diff", str(file))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"{file}:2: server.port" in wrong.stderr
    missing = cli("config", "diff", str(tmp_path / "none.toml"))
    assert missing.returncode != 0
    assert "There is no file" in missing.stderr


def test_a_draft_without_a_daemon_is_shown_against_the_defaults(home: Home) -> None:
    draft = home.folder / "new.toml"
    draft.write_text("[server]\nport = 7000\n")
    done = home.cli("config", "diff", str(draft))
    assert "server.port: 7733 → 7000\n" in done.out
    assert not home.config_file.exists()


def test_reload_tells_what_changed_and_what_is_wrong(own_daemon: DaemonProcess) -> None:
    cli, file = own_daemon.cli, own_daemon.folders.config_file
    assert json.loads(cli("config", "reload", "--json").stdout)["changes"] == []
    assert "Nothing has changed" in cli("config", "reload").stdout
    before = file.read_text()
    file.write_text(before + "[gateway]\nhold_s = 'long'\n")
    refused = cli("config", "reload")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "gateway.hold_s" in refused.stderr
    assert "Correct gateway.hold_s in" in refused.stderr


def test_without_a_daemon_there_is_nothing_to_reload(home: Home) -> None:
    assert home.cli("config", "reload").code == 3
