"""Saving one key: nothing else moves, nothing wrong lands, nobody's write is lost."""

import errno
import os
import stat
import sys
import threading
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cerberus_core.config import ensure_token, load, save, set_value, unset_value
from cerberus_core.config.structure import dotted
from cerberus_core.errors import ConfigError, NotFound
from cerberus_core.platform import Folders

COMMENTED = """# mine
[gateway]   # the gateway
hold_s = 1  # short

[server]
# where
host = "localhost"
port = 1
"""


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "config", tmp_path / "data")


def write(folders: Folders, text: str) -> None:
    folders.config.mkdir(exist_ok=True)
    folders.config_file.write_text(text, encoding="utf-8")


def test_first_save_makes_a_private_folder_and_file(folders: Folders) -> None:
    set_value(folders, "server.port", "8000")
    assert folders.config_file.read_text() == "[server]\nport = 8000\n"
    if sys.platform != "win32":
        assert stat.S_IMODE(folders.config.stat().st_mode) == 0o700
        assert stat.S_IMODE(folders.config_file.stat().st_mode) == 0o600


def test_comments_and_order_stay(folders: Folders) -> None:
    write(folders, COMMENTED)
    set_value(folders, "server.port", "8000")
    set_value(folders, "gateway.hold_s", "2.5")
    assert folders.config_file.read_text() == COMMENTED.replace("= 1  #", "= 2.5  #").replace(
        "port = 1", "port = 8000"
    )


def test_keys_with_slashes_and_new_tables(folders: Folders) -> None:
    write(folders, COMMENTED)
    set_value(folders, 'models."llamacpp/a.b".ttl_s', "5")
    set_value(folders, 'models."llamacpp/a.b".aliases', '["x"]')
    set_value(folders, "plugins.openai.endpoints.acme.base_url", "https://acme.example/v1")
    set_value(folders, "default_model", "llamacpp/a.b")
    config = load(folders).config
    assert config.models["llamacpp/a.b"].ttl_s == 5
    assert config.models["llamacpp/a.b"].aliases == ["x"]
    assert config.plugins["openai"] == {
        "endpoints": {"acme": {"base_url": "https://acme.example/v1"}}
    }
    assert config.default_model == "llamacpp/a.b"


def test_a_number_is_text_where_the_field_is_text(folders: Folders) -> None:
    set_value(folders, "default_model", "70")
    assert load(folders).config.default_model == "70"


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("server.port", "abc", 'server.port is "abc" (text); expected a whole number'),
        ("server.port", "true", "server.port is true; expected a whole number"),
        ("server.port", "99999", "server.port is 99999; expected a port"),
        ("server.prot", "1", "unknown key server.prot; did you mean server.port?"),
        ("sever.port", "1", "unknown key sever; did you mean server?"),
        ('models."a/b".ttl', "1", 'unknown key models."a/b".ttl; did you mean'),
        ("server", "{port = 1}", "server is a section"),
        ("plugins.x", "{port = 1}", "plugins.x is a section"),
        ("models.llamacpp/qwen.ttl_s", "1", "'models.llamacpp/qwen.ttl_s' is not a key"),
        ("server.port = 1 #", "1", "is not a key"),
        ("server.port\nx", "1", "is not a key"),
        ("", "1", "'' is not a key"),
        ("gateway.hold_s.x", "1", "can't be set: hold_s is not a table"),
        ("server.host", "\udcff", "not UTF-8"),
    ],
)
def test_what_is_wrong_never_lands(folders: Folders, key: str, text: str, told: str) -> None:
    write(folders, COMMENTED)
    with pytest.raises(ConfigError) as caught:
        set_value(folders, key, text)
    assert told in str(caught.value)
    assert folders.config_file.read_text() == COMMENTED


@attrs.frozen(kw_only=True)
class Declared:
    """What a plugin says of its settings."""

    url: str
    size: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    mode: str = attrs.field(default="a", validator=attrs.validators.in_(("a", "b")))


OF_A_PLUGIN = COMMENTED + '\n[plugins.x]\nurl = "u"  # where\n'


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("plugins.x.size", "0", "plugins.x.size is 0; expected a number of at least 1"),
        ("plugins.x.size", "many", 'plugins.x.size is "many" (text); expected a whole number'),
        ("plugins.x.mode", "c", 'plugins.x.mode is "c" (text); expected one of a, b'),
        ("plugins.x.sise", "1", "unknown key plugins.x.sise; did you mean plugins.x.size?"),
    ],
)
def test_a_plugins_setting_is_checked_against_its_class(
    folders: Folders, key: str, text: str, told: str
) -> None:
    write(folders, OF_A_PLUGIN)
    with pytest.raises(ConfigError) as caught:
        set_value(folders, key, text, {"x": Declared}.get)
    assert str(caught.value) == told
    assert caught.value.hint
    assert folders.config_file.read_text() == OF_A_PLUGIN
    set_value(folders, "plugins.x.url", "8000", {"x": Declared}.get)
    assert load(folders).config.plugins["x"]["url"] == "8000", "a text, as its class says"


def test_a_plugins_setting_without_which_another_is_wrong(folders: Folders) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.x\.url is missing") as caught:
        set_value(folders, "plugins.x.size", "2", {"x": Declared}.get)
    assert caught.value.hint == "Set plugins.x.url first."
    write(folders, OF_A_PLUGIN)
    with pytest.raises(ConfigError, match=r"plugins\.x\.url is missing"):
        unset_value(folders, "plugins.x.url", {"x": Declared}.get)
    assert folders.config_file.read_text() == OF_A_PLUGIN
    unset_value(folders, "plugins.x", {"x": Declared}.get)
    assert folders.config_file.read_text().startswith(COMMENTED)
    assert "url" not in folders.config_file.read_text()


def test_unset_takes_out_one_key_and_nothing_else(folders: Folders) -> None:
    write(folders, COMMENTED)
    unset_value(folders, "server.port")
    assert folders.config_file.read_text() == COMMENTED.replace("port = 1\n", "")
    unset_value(folders, "gateway.hold_s")
    assert load(folders).config.gateway.hold_s == 5.0
    set_value(folders, 'models."a/b".ttl_s', "5")
    unset_value(folders, 'models."a/b"')
    assert load(folders).config.models == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        'plugins.openai.endpoints.up.models = ["x"]\n',
        '[plugins.openai]\nendpoints.up.models = ["x"]\n',
        '[plugins.openai.endpoints.up]\nmodels = ["x"]\n[server]\nport = 1\n',
        'plugins.openai.endpoints = {up = {models = ["x"]}}\n',
    ],
)
def test_unset_takes_out_a_whole_table_however_it_is_written(folders: Folders, text: str) -> None:
    write(folders, text)
    set_value(folders, "plugins.openai.endpoints.up.base_url", "http://a/v1")
    unset_value(folders, "plugins.openai.endpoints.up")
    assert "up" not in folders.config_file.read_text()
    assert load(folders).config.server.port == (1 if "port" in text else 7733)


@pytest.mark.parametrize(
    ("key", "kind", "told"),
    [
        ("server.token", NotFound, "server.token is not set in"),
        ("server.prot", NotFound, "server.prot is not set in"),
        ("server.port.x", NotFound, "server.port.x is not set in"),
        ("server", ConfigError, "server is a section"),
        ("a b", ConfigError, "'a b' is not a key"),
    ],
)
def test_what_cant_be_unset_leaves_the_file(
    folders: Folders, key: str, kind: type[Exception], told: str
) -> None:
    write(folders, COMMENTED)
    with pytest.raises(kind, match=told):
        unset_value(folders, key)
    assert folders.config_file.read_text() == COMMENTED


def test_unset_names_the_nearest_key(folders: Folders) -> None:
    write(folders, COMMENTED)
    with pytest.raises(NotFound) as caught:
        unset_value(folders, "server.prot")
    assert caught.value.hint == "Did you mean server.port?"


def test_unset_names_no_table_and_no_neighbour(folders: Folders) -> None:
    write(folders, "[server]\nhost = '127.0.0.1'\n")
    with pytest.raises(NotFound) as caught:
        unset_value(folders, "server.port")
    assert caught.value.hint == "`cerberus config show` says what is set."


def test_unset_mends_a_file_that_has_two_wrong_values(folders: Folders) -> None:
    write(folders, "[server]\nport = 'x'\n[gateway]\nhold_s = -1\n")
    unset_value(folders, "server.port")
    unset_value(folders, "gateway.hold_s")
    assert load(folders).config.server.port == 7733


def test_a_broken_file_is_left_alone(folders: Folders) -> None:
    write(folders, "port = = 1\n")
    with pytest.raises(ConfigError, match=":1: not valid TOML"):
        set_value(folders, "server.port", "1")
    with pytest.raises(ConfigError, match=":1: not valid TOML"):
        ensure_token(folders)
    assert folders.config_file.read_text() == "port = = 1\n"


def test_the_target_of_a_link_is_replaced_not_the_link(folders: Folders, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "cerberus.toml").write_text(COMMENTED)
    folders.config.mkdir()
    folders.config_file.symlink_to(dotfiles / "cerberus.toml")
    set_value(folders, "server.port", "2")
    assert folders.config_file.is_symlink()
    assert "port = 2" in (dotfiles / "cerberus.toml").read_text()
    assert sorted(os.listdir(dotfiles)) == ["cerberus.toml"]


def test_a_full_disk_leaves_the_old_file(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folders, COMMENTED)

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(save.os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device") as caught:
        set_value(folders, "server.port", "2")
    assert "as it was" in str(caught.value.hint)
    assert folders.config_file.read_text() == COMMENTED
    assert sorted(os.listdir(folders.config)) == [".config.toml.lock", "config.toml"]


def test_writers_at_once_lose_nothing(folders: Folders) -> None:
    def write_one(number: int) -> None:
        set_value(folders, f"models.m{number}.context", str(number + 1))

    threads = [threading.Thread(target=write_one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    models = load(folders).config.models
    assert {name: model.context for name, model in models.items()} == {
        f"m{number}": number + 1 for number in range(12)
    }


def test_token_is_made_once_in_a_race(folders: Folders) -> None:
    write(folders, COMMENTED)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(ensure_token(folders))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {load(folders).config.server.token}
    assert len(found[0]) >= 40
    assert folders.config_file.read_text().startswith("# mine\n[gateway]   # the gateway\n")


def test_a_token_of_ones_own_is_kept(folders: Folders) -> None:
    write(folders, '[server]\ntoken = "mine"\n')
    assert ensure_token(folders) == "mine"
    assert folders.config_file.read_text() == '[server]\ntoken = "mine"\n'


names = st.text(min_size=1, max_size=12).filter(lambda name: name.isprintable())
comments = st.lists(st.text("ab #='\"[]é", max_size=10), min_size=3, max_size=3)
slow = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)


@given(name=names, port=st.integers(0, 65535), ttl=st.floats(0, 1e9), alias=names, notes=comments)
@slow
def test_what_is_set_is_loaded_and_comments_survive(
    folders: Folders, name: str, port: int, ttl: float, alias: str, notes: list[str]
) -> None:
    alias = alias.replace(" ", "_")
    write(folders, f"# {notes[0]}\n[server] # {notes[1]}\nport = 1 # {notes[2]}\n")
    quoted = dotted((name,))
    set_value(folders, "server.port", str(port))
    set_value(folders, f"models.{quoted}.ttl_s", repr(ttl))
    set_value(folders, f"models.{quoted}.aliases", f"[{dotted((alias + '.',))}]")
    config = load(folders).config
    assert config.server.port == port
    assert config.models[name].ttl_s == ttl
    assert config.models[name].aliases == [alias + "."]
    text = folders.config_file.read_text(encoding="utf-8")
    assert text.startswith(f"# {notes[0]}\n[server] # {notes[1]}\nport = {port} # {notes[2]}\n")


@given(st.text("[]server.port=1 \n\"'#{}a,", max_size=60), st.text(max_size=20))
@slow
def test_any_file_and_text_is_saved_whole_or_not_at_all(
    folders: Folders, old: str, text: str
) -> None:
    write(folders, old)
    try:
        set_value(folders, "plugins.a.b", text)
    except ConfigError:
        assert folders.config_file.read_bytes() == old.encode()
    else:
        assert "b" in load(folders).config.plugins["a"]
