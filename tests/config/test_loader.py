"""Loading: defaults, the file, the environment, and every way in which they can be wrong."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cerberus_core.config import Config, Loaded, load
from cerberus_core.config.file import line_of
from cerberus_core.errors import ConfigError
from cerberus_core.platform import Folders

EVERYTHING = """
default_model = "llamacpp/qwen"
strict_plugins = true
blocked_plugins = ["broken"]
[server]
host = "0.0.0.0"
port = 8000
token = "abc"
public_url = "https://box.example"
allowed_hosts = ["box.local"]
[gateway]
hold_s = 1
keepalive_s = 2.5
body_limit_mib = 3
silence_s = 0
[engines]
ttl_s = 0
list_ttl_s = 1.0
[usage]
keep = 5
rotate_mib = 6
[models."llamacpp/qwen"]
ttl_s = 7
aliases = ["q"]
context = 4096
parallel = 2
[plugins.openai.endpoints.acme]
base_url = "https://acme.example/v1"
"""


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    (tmp_path / "config").mkdir()
    return Folders(tmp_path / "config", tmp_path / "data")


def write(folders: Folders, text: str) -> None:
    folders.config_file.write_text(text, encoding="utf-8")


def wrong(folders: Folders, text: str, env: dict[str, str] | None = None) -> ConfigError:
    write(folders, text)
    with pytest.raises(ConfigError) as caught:
        load(folders, env or {})
    return caught.value


def test_a_missing_file_means_defaults_without_a_warning(folders: Folders) -> None:
    loaded = load(folders, {})
    assert loaded == Loaded(config=Config())
    assert loaded.config.server.port == 7733
    assert loaded.config.server.token is None
    assert not folders.data.exists()


def test_every_setting_can_be_set(folders: Folders) -> None:
    write(folders, EVERYTHING)
    loaded = load(folders, {})
    assert loaded.warnings == []
    config = loaded.config
    assert config.default_model == "llamacpp/qwen"
    assert config.strict_plugins is True
    assert config.blocked_plugins == ["broken"]
    assert config.server.allowed_hosts == ["box.local"]
    assert config.gateway.hold_s == 1
    assert isinstance(config.gateway.hold_s, float)
    assert config.models["llamacpp/qwen"].aliases == ["q"]
    assert config.plugins["openai"]["endpoints"]["acme"]["base_url"] == "https://acme.example/v1"
    assert loaded.sources["server.port"] == str(folders.config_file)


def test_c03_syntax_error_has_file_line_and_a_mark(folders: Folders) -> None:
    error = wrong(folders, "# one\n[server]\nport = = 8000\n")
    assert str(error).startswith(f"{folders.config_file}:3: not valid TOML: Invalid value")
    assert str(error).endswith("\n  port = = 8000\n         ^")
    assert "line 3" in str(error.hint)


def test_c03_unfinished_file_names_its_last_line(folders: Folders) -> None:
    error = wrong(folders, "[server]\nallowed_hosts = [\n")
    assert f"{folders.config_file}:2: " in str(error)
    assert "end of the file" in str(error)


def test_c03_empty_file_is_a_warning_with_its_name(folders: Folders) -> None:
    for text in ("", " \n\n"):
        write(folders, text)
        assert load(folders, {}).config == Config()
        [warning] = load(folders, {}).warnings
        assert str(folders.config_file) in warning
    write(folders, "# nothing yet\n")
    assert load(folders, {}).warnings == []


def test_c03_unknown_keys_are_warnings_with_line_and_nearest_name(folders: Folders) -> None:
    write(folders, '[server]\nprot = 1\n\n[sessions]\nx = 1\n[models."a/b"]\nalias = ["x"]\n')
    one, two, three = load(folders, {}).warnings
    at = str(folders.config_file)
    assert one == f"{at}:2: unknown key server.prot; did you mean server.port?"
    assert two.startswith(f"{at}:4: unknown key sessions; known here: default_model, ")
    assert three == (f'{at}:7: unknown key models."a/b".alias; did you mean models."a/b".aliases?')


@pytest.mark.parametrize("text", ["a = 1\na = 2\n", "[server]\n[server]\n"])
def test_c03_duplicate_key_is_an_error_with_its_line(folders: Folders, text: str) -> None:
    assert f"{folders.config_file}:2: not valid TOML: Cannot" in str(wrong(folders, text))


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('[server]\n\nport = "8000"', 3, 'server.port is "8000" (text); expected a whole number'),
        ("server.port = true", 1, "server.port is true; expected a whole number"),
        ("[server]\nport = 70000", 2, "server.port is 70000; expected a port from 0 to 65535"),
        ("[gateway]\nhold_s = true", 2, "gateway.hold_s is true; expected a number"),
        ("[gateway]\nhold_s = -1", 2, "gateway.hold_s is -1; expected a number of seconds, 0 for"),
        ('gateway.cors_origins = ["http://a/"]', 1, "gateway.cors_origins is a list; expected"),
        ('gateway.cors_origins = ["*"]', 1, "gateway.cors_origins is a list; expected"),
        ("gateway.keepalive_s = 0.01", 1, "gateway.keepalive_s is 0.01; expected a number of sec"),
        ("[engines]\nttl_s = nan", 2, "engines.ttl_s is nan; expected a number of seconds, 0 for"),
        ("strict_plugins = 1", 1, "strict_plugins is 1; expected true or false"),
        ('blocked_plugins = "x"', 1, 'blocked_plugins is "x" (text); expected a list, such as'),
        ("blocked_plugins = [1]", 1, "blocked_plugins.0 is 1; expected text in quotes"),
        ("\nserver = 5", 2, "server is 5; expected a table"),
        ("x = 1\n[models]\na = 5", 3, "models.a is 5; expected a table"),
        ('[models."a/b"]\naliases = [""]', 2, 'models."a/b".aliases is a list; expected a list of'),
        ("[models.a]\ncache_type_k = 'q9'", 2, 'models.a.cache_type_k is "q9" (text); expected'),
        ("[models.a]\ntensor_split = [0]", 2, "models.a.tensor_split is a list; expected a list"),
        ("[models.a]\ngpu_layers = -1", 2, "models.a.gpu_layers is -1; expected a whole number"),
        ("[models.a]\nextra_args = ['']", 2, "models.a.extra_args is a list; expected a list of a"),
        ("[models.a]\ndraft = ''", 2, 'models.a.draft is "" (text); expected the name of a small'),
        ("[plugins]\nopenai = 3", 2, "plugins.openai is 3; expected a table"),
        ("[server]\nallowed_hosts = [\n  'a',\n  'http://b',\n]", 2, "server.allowed_hosts is a"),
        *[
            (
                f"[models.'a/b']\nforced = {forced}",
                2,
                'models."a/b".forced is a table; expected parameters of a request',
            )
            for forced in (
                "{ model = 'x' }",
                "{ stream = true }",
                "{ a = inf }",
                "{ a = [1979-05-27] }",
            )
        ],
        ('default_model = ""', 1, 'default_model is "" (text); expected the name of a model'),
    ],
)
def test_c03_wrong_value_has_line_key_path_and_what_is_expected(
    folders: Folders, text: str, line: int, told: str
) -> None:
    error = wrong(folders, text)
    assert str(error).startswith(f"{folders.config_file}:{line}: {told}")
    assert error.hint


def test_an_alias_stands_for_one_model(folders: Folders) -> None:
    error = wrong(folders, '[models.a]\naliases=["x"]\n[models.b]\naliases=["x"]')
    assert ":4: models.b.aliases" in str(error)
    assert "'x' is an alias of 'a' as well" in str(error)


def test_not_utf8_and_a_folder_in_its_place_are_told(folders: Folders) -> None:
    folders.config_file.write_bytes(b"# fine\nx = '\xff'\n")
    with pytest.raises(ConfigError, match=":2: not UTF-8"):
        load(folders, {})
    folders.config_file.unlink()
    folders.config_file.mkdir()
    with pytest.raises(ConfigError, match="can't be read"):
        load(folders, {})


def test_a_byte_order_mark_is_no_error(folders: Folders) -> None:
    folders.config_file.write_bytes(b"\xef\xbb\xbf[server]\r\nport = 1\r\n")
    assert load(folders, {}).config.server.port == 1


def test_nesting_without_end_is_an_error(folders: Folders) -> None:
    assert "deep" in str(wrong(folders, "plugins." + ".".join("a" * 5000) + " = 1"))
    wrong(folders, "a = " + "[" * 20000)
    wrong(folders, "a = " + "1" * 5000)


@pytest.mark.parametrize(
    "text",
    [
        "[server]\ntoken = s3cr3t\n",
        '[server]\ntoken = "s3cr3t\n',
        "[server]\ntoken = ['s3cr3t']\n",
        "[server]\ntoken = 's3 cr3t s3cr3t'\n",
        '[plugins.openai.endpoints.a]\napi_key = """\ns3cr3t\\q"""\n',
        "[plugins.openai.endpoints.a.headers]\nx-acme = s3cr3t\n",
        "server = {token = s3cr3t}\n",
        "[plugins.x]\nbase_url = 'http://me:s3cr3t@host/' oops\n",
    ],
)
def test_no_secret_is_in_an_error(folders: Folders, text: str) -> None:
    error = wrong(folders, text)
    assert "s3cr3t" not in str(error) + str(error.hint)
    assert str(folders.config_file) in str(error)


def test_environment_wins_over_the_file(folders: Folders) -> None:
    write(folders, EVERYTHING)
    env = {
        "CERBERUS_SERVER__PORT": "9000",
        "CERBERUS_SERVER__TOKEN": "12345",
        "CERBERUS_SERVER__ALLOWED_HOSTS": '["a", "b"]',
        "CERBERUS_GATEWAY__HOLD_S": "1",
        "CERBERUS_STRICT_PLUGINS": "off",
        "CERBERUS_DEFAULT_MODEL": "7",
        "CERBERUS_MODELS__LLAMACPP/QWEN__CONTEXT": "8192",
        "CERBERUS_MODELS__small__ALIASES": '["s"]',
        "CERBERUS_PLUGINS__OPENAI__ENDPOINTS__ACME__BASE_URL": "http://other/v1",
        "CERBERUS_SERVER__HOST": "",
        "CERBERUS_CONFIG": "/elsewhere",
        "CERBERUS_ANYTHING": "x",
        "PATH": "/bin",
    }
    loaded = load(folders, env)
    config = loaded.config
    assert (config.server.port, config.server.token) == (9000, "12345")
    assert config.server.host == "0.0.0.0"
    assert config.server.allowed_hosts == ["a", "b"]
    assert config.gateway.hold_s == 1.0
    assert config.strict_plugins is False
    assert config.default_model == "7"
    assert config.models["llamacpp/qwen"].context == 8192
    assert config.models["llamacpp/qwen"].aliases == ["q"]
    assert config.models["small"].aliases == ["s"]
    assert config.plugins["openai"]["endpoints"]["acme"]["base_url"] == "http://other/v1"
    assert loaded.warnings == []
    assert loaded.sources["server.port"] == "CERBERUS_SERVER__PORT"
    assert loaded.sources["server.host"] == str(folders.config_file)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SERVER__PORT", "80a0", 'server.port is "80a0" (text); expected a whole number'),
        ("SERVER__PORT", "99999", "server.port is 99999; expected a port"),
        ("SERVER__PORT", "1\nx=1", "server.port is "),
        ("SERVER__PORT", "1.5", "server.port is "),
        ("STRICT_PLUGINS", "perhaps", 'strict_plugins is "perhaps" (text); expected true or'),
        ("SERVER__ALLOWED_HOSTS", "a,b", 'server.allowed_hosts is "a,b" (text); expected a list'),
        ("SERVER__HOST", "\udcff", "server.host is "),
        ("PLUGINS__X", "5", 'plugins.x is "5" (text); expected a table'),
    ],
)
def test_wrong_environment_names_its_variable(
    folders: Folders, name: str, value: str, told: str
) -> None:
    error = wrong(folders, "\n", {f"CERBERUS_{name}": value})
    assert str(error).startswith(f"CERBERUS_{name}: {told}")
    assert f"CERBERUS_{name}" in str(error.hint)
    assert str(error).encode()


def test_unknown_environment_key_is_a_warning(folders: Folders) -> None:
    [warning] = load(folders, {"CERBERUS_SERVER__PRT": "1"}).warnings
    assert warning == "CERBERUS_SERVER__PRT: unknown key server.prt; did you mean server.port?"


def test_secrets_of_the_environment_are_not_told(folders: Folders) -> None:
    error = wrong(folders, "\n", {"CERBERUS_SERVER__TOKEN": "s3cr3t s3cr3t"})
    assert "s3cr3t" not in str(error)
    assert "s3cr3t" not in repr(load(folders, {"CERBERUS_SERVER__TOKEN": "s3cr3t"}))


tomlish = st.lists(
    st.sampled_from(
        ["[server]", "\n", "port", "token", "=", " ", '"', "'", "8000", "[", "]", "{", "}", ".",
         "models", "plugins", "a", "#", "\\", ",", "true", "1979-05-27", "inf", '"""', "\r", "é"]
    )
).map(lambda parts: "".join(parts).encode())  # fmt: skip
once = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@given(st.binary(max_size=300) | tomlish)
@once
def test_any_bytes_give_settings_or_a_config_error(folders: Folders, data: bytes) -> None:
    folders.config_file.write_bytes(data)
    try:
        told = str(load(folders, {}).sources.values() or folders.config_file)
    except ConfigError as error:
        told = str(error)
    assert str(folders.config_file) in told


NAMES = ["SERVER__PORT", "SERVER__TOKEN", "SERVER__ALLOWED_HOSTS", "STRICT_PLUGINS",
         "GATEWAY__HOLD_S", "MODELS__A__ALIASES", "PLUGINS__A__B", "SERVER", "MODELS", "__", "A__B",
         "SERVER__PORT__X", "PLUGINS__A", "MODELS__A__B__CONTEXT"]  # fmt: skip
env_text = st.text(max_size=40) | st.sampled_from(
    [
        "1",
        "nan",
        "true",
        "[1]",
        '["a"]',
        '{"a": 1}',
        "[" * 3000,
        "1" * 5000,
        "\udc80",
        "-1",
        "1e999",
    ]
)


@given(st.dictionaries(st.sampled_from(NAMES).map("CERBERUS_".__add__), env_text, max_size=4))
@once
def test_any_environment_gives_settings_or_a_config_error(
    folders: Folders, env: dict[str, str]
) -> None:
    write(folders, "[server]\nport = 1\n")
    try:
        told = str(load(folders, env).sources)
    except ConfigError as error:
        told = str(error)
    assert "CERBERUS_" in told or "environment" in told or "config.toml" in told


def test_many_unknown_keys_are_few_lines(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def counted(text: str, path: tuple[str, ...]) -> int | None:
        looked.append(path)
        return line_of(text, path)

    monkeypatch.setattr("cerberus_core.config.loader.line_of", counted)
    write(folders, "".join(f'[models."a/{n}"]\ncontex = 3\n' for n in range(50)))
    warnings = load(folders, {}).warnings
    assert f"{folders.config_file}:2: unknown key" in warnings[0]
    assert warnings[10:] == [f"{folders.config_file}: 40 more unknown keys"]
    assert len(looked) == 10
