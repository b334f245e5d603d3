"""`cerberus keys` as a person runs it."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cerberus_core.cli import keys
from cerberus_core.errors import CerberusError
from tests.cli.conftest import Done, Home
from tests.processes import DaemonProcess

Cli = Callable[..., Done]
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def ask(daemon: DaemonProcess, token: str) -> int:
    body = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"{daemon.url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"x-api-key": token, "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def shown(cli: Cli, *args: str) -> Any:
    finished = cli("keys", *args, "--json")
    assert finished.code == 0, finished.err
    return json.loads(finished.out)


def test_a_key_is_made_used_shown_renamed_and_revoked(cli: Cli, served: DaemonProcess) -> None:
    made = cli(
        "keys", "add", "laptop", "--models", "up/*,qwen*", "--models", "x/y", "--local-only",
        "--tokens-per-day", "5000", "--money-per-month", "2.5", "--joules-in-all", "90000",
        "--requests-per-day", "1", "--parallel", "2", "--expires", "30d",
    )  # fmt: skip
    assert (made.code, made.err) == (0, "")
    token = made.out.strip()
    assert token.startswith("ck-")
    assert ask(served, token) == 200
    assert ask(served, token) == 429
    table = cli("keys", "ls").out
    assert "laptop" in table
    assert "1 of 1 requests a day" in table
    page = cli("keys", "show", "laptop").out
    for words in ("up/*, qwen*, x/y (local only)", "7 of 5000 tokens a day, renews ",
                  "0.0000 of 2.5000 EUR a month", "0 of 90000 joules in all",
                  "0 of 2 requests", "are not kept", "1 requests, 7 tokens"):  # fmt: skip
        assert words in page
    assert token not in table + page
    key = shown(cli, "show", "laptop")
    assert shown(cli, "show", key["id"])["name"] == "laptop"
    assert [one["name"] for one in shown(cli, "ls")["keys"]] == ["laptop"]
    ends = datetime.fromisoformat(key["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < ends <= timedelta(days=30)
    assert "(the owner)" not in cli("usage", "--by", "key").out.partition("laptop")[0]
    assert "laptop" in cli("usage", "--by", "key").out
    assert cli("keys", "rename", "laptop", "phone").out == "laptop is now called phone.\n"
    assert shown(cli, "rename", "phone", "tablet")["name"] == "tablet"
    assert cli("keys", "rm", "tablet").out == "tablet is revoked.\n"
    assert ask(served, token) == 401
    assert "no keys yet" in cli("keys", "ls").out


def test_json_tells_the_token_once(cli: Cli) -> None:
    made = shown(cli, "add", "script")
    assert made["token"].startswith(f"ck-{made['key']['id']}-")
    assert made["key"]["limits"] == []
    assert shown(cli, "rm", "script")["removed"] == made["key"]["id"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["show", "nobody"], 4, "'nobody'"),
        (["rm", "nobody"], 4, "`cerberus keys ls`"),
        (["rename", "nobody", "x"], 4, "'nobody'"),
        (["add", "a", "--expires", "soon"], 2, "'soon' is no time"),
        (["add", "a", "--expires", "2020-01-01"], 2, "expired already"),
        (["add", "a", "--tokens-per-day", "-1"], 2, "--tokens-per-day"),
        (["add", "a", "--models", "a b"], 2, "`models`"),
        (["add", ""], 2, "name"),
    ],
)
def test_a_wrong_call_is_told(cli: Cli, args: list[str], code: int, words: str) -> None:
    finished = cli("keys", *args)
    assert (finished.code, finished.out) == (code, "")
    assert words.replace("`cerberus", "") in finished.err or words in finished.err


def test_without_a_daemon_it_says_how_to_start_one(home: Home) -> None:
    for args in (["ls"], ["add", "a"], ["rm", "a"], ["show", "a"]):
        finished = home.cli("keys", *args)
        assert finished.code == 3
        assert "serve" in finished.err


def test_a_span_or_a_date_says_when_it_ends() -> None:
    assert keys.parse_until("12h", NOW) == NOW + timedelta(hours=12)
    assert keys.parse_until("4w", NOW) == NOW + timedelta(weeks=4)
    assert keys.parse_until("2026-03-01T00:00+00:00", NOW) == datetime(2026, 3, 1, tzinfo=UTC)
    for wrong in ("", "1y", "99999999d", "tomorrow"):
        with pytest.raises(CerberusError):
            keys.parse_until(wrong, NOW)


def test_what_a_key_may_is_changed(cli: Cli, served: DaemonProcess) -> None:
    token = cli("keys", "add", "tuned", "--requests-per-day", "1", "--expires", "30d").out.strip()
    assert (ask(served, token), ask(served, token)) == (200, 429)
    done = cli("keys", "set", "tuned", "--requests-per-day", "5", "--tokens-in-all", "900",
               "--local-only", "--store-prompts", "--drop", "expires")  # fmt: skip
    assert done.code == 0, done.err
    for words in ("1 of 5 requests a day", "7 of 900 tokens in all", "(local only)", "are kept",
                  "expires     never"):  # fmt: skip
        assert words in done.out
    assert ask(served, token) == 200
    done = cli("keys", "set", "tuned", "--drop", "requests-per-day, tokens-in-all", "--cloud")
    assert "limit " not in done.out
    wrong = cli("keys", "set", "tuned", "--drop", "sleep")
    assert (wrong.code, "tokens-per-day" in wrong.err) == (2, True)
    assert cli("keys", "set", "tuned").code == 2
    assert cli("keys", "set", "nobody", "--cloud").code != 0
    cli("keys", "rm", "tuned")


def test_what_a_key_asked_is_shown_where_it_is_kept_alone(cli: Cli, served: DaemonProcess) -> None:
    for name, options in (("kept", ["--store-prompts"]), ("plain", [])):
        token = cli("keys", "add", name, *options).out.strip()
        assert ask(served, token) == 200
        [last] = json.loads(cli("usage", "--last", "1", "--json").out)["requests"]
        assert last["client"] == name
        shown = cli("why", "--prompt", last["id"])
        for _ in range(100):  # it is written a moment after the answer
            if shown.code == 0 or name == "plain":
                break
            shown = cli("why", "--prompt", last["id"])
        line = cli("why", "--curl", last["id"]).out
        assert token not in line
        if name == "kept":
            assert '"content": "hi"' in shown.out
            assert '"content": "hi"' in line
        else:
            assert (shown.code != 0, "--store-prompts" in shown.err) == (True, True)
            assert '"content": "…"' in line
        cli("keys", "rm", name)
