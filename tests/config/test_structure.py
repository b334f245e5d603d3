"""A plugin's settings: its own class, the core's errors."""

from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from cerberus_core.config import Config, load, plugin_settings
from cerberus_core.errors import ConfigError
from cerberus_core.platform import Folders


@attrs.frozen(kw_only=True)
class Endpoint:
    base_url: str = attrs.field(validator=attrs.validators.matches_re("https?://.*"))
    api_key: str | None = attrs.field(default=None, repr=False)
    headers: dict[str, str] = attrs.field(factory=dict, repr=False)
    weight: int | str = 1


@attrs.frozen(kw_only=True)
class Settings:
    endpoints: dict[str, Endpoint] = attrs.field(factory=dict)
    folder: Path | None = None
    mode: Literal["fast", "good"] = "fast"
    limits: tuple[int, ...] = ()
    ratio: float = attrs.field(default=1.0, validator=attrs.validators.ge(0))
    stop: bool = False
    extra: dict[str, Any] = attrs.field(factory=dict)
    key_len: int = attrs.field(default=1)


def settings(raw: dict[str, Any]) -> tuple[Settings, list[str]]:
    warnings: list[str] = []
    return plugin_settings(Config(plugins={"x": raw}), "x", Settings, warnings.append), warnings


def test_absent_section_gives_the_plugins_defaults() -> None:
    assert plugin_settings(Config(), "x", Settings, pytest.fail) == Settings()


def test_values_get_their_types() -> None:
    found, warnings = settings(
        {
            "endpoints": {"a": {"base_url": "http://a", "headers": {"k": "v"}, "weight": "much"}},
            "folder": "~/models",
            "mode": "good",
            "limits": [1, 2],
            "ratio": 2,
            "extra": {"n": [1, {"m": 2}]},
        }
    )
    assert warnings == []
    assert found.endpoints["a"].weight == "much"
    assert found.folder == Path("~/models").expanduser()
    assert (found.mode, found.limits, found.ratio) == ("good", (1, 2), 2.0)
    assert found.extra == {"n": [1, {"m": 2}]}


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"endpoints": {"a": {"base_url": 5}}}, "plugins.x.endpoints.a.base_url is 5; expected t"),
        ({"endpoints": {"a": {}}}, "plugins.x.endpoints.a.base_url is missing; expected a value"),
        ({"endpoints": {"a": "b"}}, 'plugins.x.endpoints.a is "b" (text); expected a table'),
        ({"limits": [1, "2"]}, 'plugins.x.limits.1 is "2" (text); expected a whole number'),
        ({"mode": "slow"}, 'plugins.x.mode is "slow" (text); expected a good value'),
        ({"ratio": -1}, "plugins.x.ratio is -1; expected a number of at least 0"),
        ({"folder": 5}, "plugins.x.folder is 5; expected a path in quotes"),
        ({"stop": 0}, "plugins.x.stop is 0; expected true or false"),
    ],
)
def test_wrong_value_names_the_key_path(raw: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(raw)
    assert str(caught.value).startswith(told)


def test_unknown_key_is_a_warning_with_the_nearest() -> None:
    _, warnings = settings({"endpoints": {"a b": {"base_url": "http://a", "apikey": "s3cr3t"}}})
    assert warnings == [
        'unknown key plugins.x.endpoints."a b".apikey; '
        'did you mean plugins.x.endpoints."a b".api_key?'
    ]


def test_secrets_are_not_told() -> None:
    for endpoint in (
        {"base_url": "http://a", "api_key": ["s3cr3t"]},
        {"base_url": "http://a", "headers": {"x": 53217}},
        {"base_url": "ftp://me:s3cr3t@a"},
    ):
        with pytest.raises(ConfigError) as caught:
            settings({"endpoints": {"a": endpoint}})
        assert "s3cr3t" not in str(caught.value)
        assert "53217" not in str(caught.value)


def test_environment_reaches_plugins_with_the_types_of_their_class(tmp_path: Path) -> None:
    env = {
        "CERBERUS_PLUGINS__X__ENDPOINTS__ACME__BASE_URL": "http://a",
        "CERBERUS_PLUGINS__X__ENDPOINTS__ACME__API_KEY": "12345",
        "CERBERUS_PLUGINS__X__STOP": "on",
        "CERBERUS_PLUGINS__X__LIMITS": "[1, 2]",
        "CERBERUS_PLUGINS__X__RATIO": "0.5",
        "CERBERUS_PLUGINS__X__TYPO": "0.5",
    }
    folders = Folders(tmp_path, tmp_path)
    warnings: list[str] = []
    found = plugin_settings(load(folders, env).config, "x", Settings, warnings.append)
    assert found.endpoints["acme"].api_key == "12345"
    assert (found.stop, found.limits, found.ratio) == (True, (1, 2), 0.5)
    [warning] = warnings
    assert warning.startswith("CERBERUS_PLUGINS__X__TYPO: unknown key plugins.x.typo")
    env["CERBERUS_PLUGINS__X__RATIO"] = "half"
    with pytest.raises(ConfigError, match=r"^CERBERUS_PLUGINS__X__RATIO: plugins\.x\.ratio is"):
        plugin_settings(load(folders, env).config, "x", Settings, warnings.append)
