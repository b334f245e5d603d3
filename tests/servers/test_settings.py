"""What settings say about a server: its address, whose machine it is on, its key."""

import attrs
import pytest

from cerberus_core.servers import is_address, is_local, key_of, one_line, server_address


@attrs.frozen
class Settings:
    url: str | None = attrs.field(default=None, validator=server_address("http://127.0.0.1:1"))
    key: str | None = attrs.field(default=None, validator=one_line)


@pytest.mark.parametrize("good", ["http://a", "https://a.b:1/", "http://[::1]:9", "http://nas:80"])
def test_an_address_is_taken(good: str) -> None:
    assert is_address(good)
    assert Settings(url=good).url == good


@pytest.mark.parametrize(
    "wrong",
    [
        "127.0.0.1:1", "http://a:99999", "http://a:0", "http://a/v1", "http://u:p@a", "ftp://a",
        "", "http://a?x=1", "http://[::1", "http://ü",
    ],
)  # fmt: skip
def test_what_is_no_address_is_told_with_an_example(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"url must be an address such as http://127\.0\.0\.1:1"):
        Settings(url=wrong)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:11434", True),
        ("http://127.8.0.1:1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://192.168.1.4:11434", False),
        ("http://localhost.example.com", False),
    ],
)
def test_only_loopback_is_local(url: str, local: bool) -> None:
    assert is_local(url) is local


@pytest.mark.parametrize("wrong", ["geheim\n", "gehe\tim", " ", "geheimnü"])
def test_a_key_that_cant_be_sent_is_refused_and_not_told(wrong: str) -> None:
    with pytest.raises(ValueError, match="key must be one line") as caught:
        Settings(key=wrong)
    assert wrong not in str(caught.value) or wrong == " "
    with pytest.raises(KeyError) as named:
        key_of(None, "THE_KEY", {"THE_KEY": wrong.replace("\n", "\0")})
    assert named.value.args == ("THE_KEY",)


def test_a_key_is_the_written_one_else_the_variables() -> None:
    env = {"THE_KEY": "sk-2\n"}
    assert key_of("sk-1", "THE_KEY", env) == "sk-1"
    assert key_of(None, "THE_KEY", env) == "sk-2"
    assert key_of(None, None, env) is None
    with pytest.raises(KeyError):
        key_of(None, "OTHER", env)
