"""Settings that can't work are refused with the path of their key."""

from typing import Any

import pytest
from cerberus_openai.settings import EndpointSettings, Settings

from cerberus_core.config import Config, plugin_settings
from cerberus_core.errors import ConfigError

GOOD = {"base_url": "https://api.example.com/v1"}


def structured(endpoints: dict[str, Any]) -> Settings:
    config = Config(plugins={"openai": {"endpoints": endpoints}})
    warnings: list[str] = []
    settings = plugin_settings(config, "openai", Settings, warnings.append)
    assert warnings == []
    return settings


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("base_url", "api.example.com/v1"),
        ("base_url", "ftp://example.com/v1"),
        ("base_url", "https:///v1"),
        ("base_url", "http://[::1/v1"),
        ("base_url", "https://me@example.com/v1"),
        ("base_url", "https://:sk-1@example.com/v1"),
        ("base_url", "https://example.com/v1?key=sk-1"),
        ("base_url", "https://example.com/v1#x"),
        ("base_url", "https://example.com:99999/v1"),
        ("base_url", "https://example.com:port/v1"),
        ("base_url", 7),
        ("api_key", "sk-1\nsk-2"),
        ("api_key", "sk-ä"),
        ("api_key", " "),
        ("models", "m"),
        ("headers", {"x a": "b"}),
        ("headers", {"": "b"}),
        ("headers", {"x-a": "b\r\nx-c: d"}),
        ("local", "maybe"),
    ],
)
def test_a_bad_value_is_refused_with_its_key(key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        structured({"up": {**GOOD, key: value}})
    said = f"{caught.value} {caught.value.hint}"
    assert "plugins.openai.endpoints.up" in said
    assert key in said
    assert "sk-" not in said


@pytest.mark.parametrize("name", ["a/b", "", "-x", "a b", "ä"])
def test_a_name_that_would_spoil_model_ids_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.openai.*endpoints has one named"):
        structured({name: GOOD})


def test_an_address_is_needed() -> None:
    with pytest.raises(ConfigError, match="base_url"):
        structured({"up": {}})


@pytest.mark.parametrize(
    ("url", "told", "local"),
    [
        ("http://127.0.0.1:8000/v1", None, True),
        ("http://localhost:8000/v1", None, True),
        ("http://[::1]:8000/v1", None, True),
        ("https://api.example.com/v1", None, False),
        ("http://192.168.1.2:8000/v1", None, False),
        ("http://192.168.1.2:8000/v1", True, True),
        ("http://127.0.0.1:8000/v1", False, False),
    ],
)
def test_an_endpoint_on_loopback_is_local_unless_told(
    url: str, told: bool | None, local: bool
) -> None:
    assert EndpointSettings(base_url=url, local=told).is_local() is local


def test_the_key_is_in_no_repr() -> None:
    settings = structured(
        {"up": {**GOOD, "api_key": "sk-secret", "headers": {"x-key": "sk-secret"}}}
    )
    assert settings.endpoints["up"].key() == "sk-secret"
    assert "sk-secret" not in repr(settings)


def test_the_key_comes_from_the_environment() -> None:
    settings = EndpointSettings(base_url="http://127.0.0.1/v1", api_key_env="UP_KEY")
    assert settings.key({"UP_KEY": " sk-1\n"}) == "sk-1"
    assert EndpointSettings(base_url="http://127.0.0.1/v1").key({}) is None


@pytest.mark.parametrize("env", [{}, {"UP_KEY": ""}, {"UP_KEY": " "}, {"UP_KEY": "a\r\nx: b"}])
def test_a_key_that_is_unset_or_can_not_be_sent_is_missing(env: dict[str, str]) -> None:
    settings = EndpointSettings(base_url="http://127.0.0.1/v1", api_key_env="UP_KEY")
    with pytest.raises(KeyError) as caught:
        settings.key(env)
    assert caught.value.args == ("UP_KEY",)
