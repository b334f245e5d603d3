import pytest
from cerberus_ollama.settings import DEFAULT_URL, Settings, address, from_host


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:11500", "http://127.0.0.1:11500"),
        (":8080", "http://127.0.0.1:8080"),
        ("nas", "http://nas:11434"),
        ("http://nas", "http://nas:80"),
        ("https://nas.example.com", "https://nas.example.com:443"),
        ("https://nas.example.com:1/path", "https://nas.example.com:1"),
        ("[::1]:9", "http://[::1]:9"),
        ("::1", "http://[::1]:11434"),
        ('"127.0.0.1:5"', "http://127.0.0.1:5"),
        ("nonsense:port", DEFAULT_URL),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert from_host(host) == url


def test_the_setting_comes_first_then_the_environment_then_the_program() -> None:
    env = {"OLLAMA_HOST": "nas"}
    assert address(Settings(base_url="http://a:1/"), env, lambda _: None) == "http://a:1"
    assert address(Settings(), env, lambda _: None) == "http://nas:11434"
    assert address(Settings(), {}, lambda _: "/usr/bin/ollama") == DEFAULT_URL
    assert address(Settings(), {"OLLAMA_HOST": " "}, lambda _: None) is None


@pytest.mark.parametrize(
    "wrong", ["127.0.0.1:11434", "http://a:99999", "http://a/v1", "http://u:p@a", "ftp://a", ""]
)
def test_what_is_no_address_is_told(wrong: str) -> None:
    with pytest.raises(ValueError, match="base_url must be an address"):
        Settings(base_url=wrong)
