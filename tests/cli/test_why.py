"""What `why` says of a request, from its record alone."""

from typing import Any

import pytest

from cerberus_core.cli.why import curl_line, lines

PLAIN: dict[str, Any] = {
    "id": "01", "time": "2026-01-01T12:00:00+00:00", "model": "first/m", "asked": None,
    "backend": "first", "client": "claude-code", "session_id": None, "local": True,
    "path": "/v1/chat/completions", "stream": False, "prompt_tokens": None, "cached_tokens": None,
    "completion_tokens": None, "tokens_counted": False, "queue_ms": None, "load_ms": None,
    "evicted": [], "tried": [], "ttft_ms": None, "duration_ms": 40, "tok_per_sec": None,
    "prefill_tok_per_sec": None, "energy_j": None, "energy_gpu_j": None, "energy_cpu_j": None,
    "energy": None, "tok_per_j": None, "status": 200, "error": None,
    "cost": None, "energy_cost": None, "currency": "EUR", "prompt_kept": False,
}  # fmt: skip


def told(**more: Any) -> dict[str, str]:
    rows = [line.split(maxsplit=1) for line in lines({**PLAIN, **more})]
    return {row[0]: row[1] for row in rows}


def test_what_is_unknown_has_no_line() -> None:
    assert list(told()) == ["asked", "route", "answer"]
    assert told()["route"] == "first/m answered on this machine"
    assert told()["asked"].endswith("by claude-code: first/m at /v1/chat/completions")


def test_every_step_of_the_way_is_named() -> None:
    steps = [{"model": "first/m", "why": "it is busy"}]
    rows = told(
        asked="coder", model="acme/x", backend="acme", local=False, tried=steps, session_id="s1",
        queue_ms=3200, evicted=["ollama/b"], load_ms=2000, prompt_tokens=312, cached_tokens=280,
        prefill_tok_per_sec=1200.0, ttft_ms=182, completion_tokens=62, tok_per_sec=34.2,
        duration_ms=4020, energy_j=14.5, energy_gpu_j=12.3, energy_cpu_j=2.2, energy="measured",
        tok_per_j=4.28,
    )  # fmt: skip
    assert rows == {
        "asked": rows["asked"],
        "route": "first/m gave way (it is busy), then acme/x answered at acme",
        "waited": "3.2 s for its turn, or for room in memory; ollama/b left for it; "
        "2.0 s for the model to load",
        "prompt": "312 tokens, 280 of them cached; read at 1200 tok/s; first token after 182 ms",
        "answer": "62 tokens; 34.2 tok/s; 4.0 s in all; status 200",
        "energy": "14.5 J measured (GPU 12.3, CPU 2.2); 4.3 tok/J",
        "cost": 'price unknown: set [prices."acme/x"] in config.toml',
    }
    assert ": coder at" in rows["asked"]
    assert "session s1" in rows["asked"]


def test_an_error_is_no_answer() -> None:
    rows = told(status=502, error="boom")
    assert rows["route"] == "first/m did not answer to the end"
    assert rows["error"] == "boom"


def test_a_replay_holds_no_key_and_the_name_that_was_asked() -> None:
    line = curl_line({**PLAIN, "asked": "it's", "stream": True}, "http://127.0.0.1:1")
    assert "Bearer ${CERBERUS_TOKEN:-$(cerberus token)}" in line
    assert """'{"model": "it'"'"'s", "messages": [""" in line


def test_a_replay_of_a_form_sends_one() -> None:
    line = curl_line({**PLAIN, "path": "/v1/audio/transcriptions"}, "http://127.0.0.1:1")
    assert line.endswith("-F model=first/m -F file=@…")
    line = curl_line({**PLAIN, "path": "/v1/images/generations"}, "http://127.0.0.1:1")
    assert line.endswith("""--data-raw '{"model": "first/m", "prompt": "…"}'""")


@pytest.mark.parametrize(
    ("record", "cost"),
    [
        ({"cost": 0.00712}, "0.0071 EUR by the price table"),
        ({"cost": 0.0000071}, "7.1e-06 EUR by the price table"),
        ({}, 'price unknown: set [prices."first/m"] in config.toml'),
        ({"prompt_tokens": None}, None),
        ({"local": None}, None),
        ({"local": True}, None),
        ({"local": True, "energy_cost": 0.0012}, "0.0012 EUR of electricity"),
    ],
)
def test_what_it_cost_or_that_nobody_knows(record: dict[str, Any], cost: str | None) -> None:
    assert told(**{"local": False, "prompt_tokens": 5, **record}).get("cost") == cost
