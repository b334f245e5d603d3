"""Secrets are never shown; what isn't secret stays readable."""

import datetime
import json

import pytest

from cerberus_core.config import Config, ServerConfig, public
from cerberus_core.config.secrecy import looks_secret, masked, redacted


@pytest.mark.parametrize(
    "name",
    ["token", "api_key", "apiKey", "API-KEY", "hf_token", "Authorization", "password", "keys",
     "client_secret", "headers", "x-api-key", "APIKey", "cookies"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["port", "api_key_env", "key_file", "keepalive_s", "monkey", "author", "models", "keep"],
)
def test_names_of_other_things(name: str) -> None:
    assert not looks_secret(name)


def test_public_has_no_secret_at_any_depth() -> None:
    config = Config(
        server=ServerConfig(token="s3cr3t"),
        plugins={
            "openai": {
                "endpoints": {
                    "acme": {
                        "base_url": "https://me:s3cr3t@acme.example/v1?api_key=s3cr3t&x=1",
                        "api_key": "s3cr3t",
                        "api_key_env": "ACME_KEY",
                        "headers": {"X-Team": "s3cr3t", "Authorization": "Bearer s3cr3t"},
                        "keys": ["s3cr3t", {"deep": "s3cr3t"}],
                        "max_tokens": 512,
                        "since": datetime.date(2026, 1, 2),
                        "limit": float("inf"),
                    }
                },
                "args": ["--api-key", "s3cr3t", "--token=s3cr3t", "-c", "5"],
                "password": "",
            }
        },
    )
    shown = public(config)
    assert "s3cr3t" not in json.dumps(shown)
    assert "s3cr3t" not in repr(config)
    acme = shown["plugins"]["openai"]["endpoints"]["acme"]
    assert shown["server"]["token"] == "set"
    assert acme["base_url"] == "https://set@acme.example/v1?api_key=set&x=1"
    assert acme["api_key_env"] == "ACME_KEY"
    assert acme["headers"] == {"X-Team": "set", "Authorization": "set"}
    assert acme["max_tokens"] == 512
    assert acme["since"] == "2026-01-02"
    assert shown["plugins"]["openai"]["args"] == ["--api-key", "set", "--token=set", "-c", "5"]
    assert shown["plugins"]["openai"]["password"] is None
    assert public(Config())["server"]["token"] is None


def test_public_of_defaults_shows_every_section() -> None:
    assert set(public(Config())) == {
        "default_model", "strict_plugins", "blocked_plugins", "server", "gateway", "engines",
        "gpu", "energy", "usage", "models", "prices", "plugins",
    }  # fmt: skip


def test_words_of_others_are_redacted() -> None:
    tree = {"a": {"api_key": "s3cr3t"}, "url": "http://me:pw@host"}
    assert redacted("'s3cr3t' is too short, me:pw", tree) == "'…' is too short, …"
    assert masked({"n": 1, "t": True, "x": None}) == {"n": 1, "t": True, "x": None}
