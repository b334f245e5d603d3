"""The quick reader agrees with the full one, and imports next to nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cerberus_core.config import load
from cerberus_core.config.quick import read
from cerberus_core.errors import ConfigError
from cerberus_core.platform import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path, tmp_path)


def test_defaults_without_any_file(folders: Folders) -> None:
    quick = read(folders, {})
    assert (quick.host, quick.port, quick.token) == ("127.0.0.1", 7733, None)
    assert (quick.url, quick.pid) == ("http://127.0.0.1:7733", None)


def test_file_environment_and_daemon(folders: Folders) -> None:
    folders.config_file.write_text('[server]\nhost = "::"\nport = 1\ntoken = "s3cr3t"\n')
    quick = read(folders, {"CERBERUS_SERVER__PORT": "2"})
    assert (quick.host, quick.port, quick.token) == ("::", 2, "s3cr3t")
    assert quick.url == "http://[::1]:2"
    assert "s3cr3t" not in repr(quick)
    folders.daemon_file.write_text(json.dumps({"pid": 5, "url": "http://127.0.0.1:9/", "x": 1}))
    quick = read(folders, {})
    assert (quick.url, quick.pid) == ("http://127.0.0.1:9", 5)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", '{"pid": 1}', '{"pid": "1", "url": "http://a"}', "[" * 9999]
)
def test_a_torn_daemon_file_says_nothing(folders: Folders, text: str) -> None:
    folders.daemon_file.write_text(text)
    quick = read(folders, {})
    assert (quick.url, quick.pid) == ("http://127.0.0.1:7733", None)


def test_what_is_wrong_is_told_by_the_full_loader(folders: Folders) -> None:
    folders.config_file.write_text("[server]\nport = 'x'\n")
    with pytest.raises(ConfigError, match=r":2: server\.port"):
        read(folders, {})
    folders.config_file.write_text("port = = 1")
    with pytest.raises(ConfigError, match=":1: not valid TOML"):
        read(folders, {})
    folders.config_file.unlink()
    with pytest.raises(ConfigError, match=r"^CERBERUS_SERVER__PORT: "):
        read(folders, {"CERBERUS_SERVER__PORT": "many"})


values = st.sampled_from(["1", "'a'", "true", "'0.0.0.0'", "70000", "'a b'", "''", "[1]", "'é'"])
lines = st.dictionaries(st.sampled_from(["host", "port", "token", "public_url"]), values)
variables = st.dictionaries(
    st.sampled_from(
        ["CERBERUS_SERVER__PORT", "CERBERUS_SERVER__HOST", "CERBERUS_SERVER__token",
         "CERBERUS_SERVER__Host", "CERBERUS_server__PORT", "CERBERUS_SERVER__"]
    ),
    st.sampled_from(["1", "0x10", " 7 ", "a", "", "1_000", "é", "a b", "99999", "\u0663"]),
    max_size=3,
)  # fmt: skip


@given(lines, variables)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_it_agrees_with_the_full_loader(
    folders: Folders, table: dict[str, str], env: dict[str, str]
) -> None:
    text = "[server]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
    folders.config_file.write_text(text, encoding="utf-8")
    try:
        server = load(folders, env).config.server
    except ConfigError:
        if "public_url" not in table:  # which the quick one has no use for
            with pytest.raises(ConfigError):
                read(folders, env)
        return
    quick = read(folders, env)
    assert (quick.host, quick.port, quick.token) == (server.host, server.port, server.token)


def test_it_imports_nothing_heavy() -> None:
    code = "import cerberus_core.config.quick, sys; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    heavy = {"attr", "attrs", "cattrs", "tomlkit", "pluggy", "asyncio", "typer", "rich"}
    assert not heavy & set(modules)
