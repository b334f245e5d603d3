"""Tables in 80 columns: names go on in the next line, and nothing is cut off."""

import pytest
from rich.console import Console

from cerberus_core.cli import models, table, usage
from cerberus_core.cli.output import figure

LONG = "llamacpp/Qwen3-Coder-30B-A3B-Instruct-UD-Q4_K_XL@unsloth/Qwen3-Coder-30B-A3B-Instruct"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(table, "Console", lambda **_: Console(width=80))


def model(**facts: object) -> dict[str, object]:
    unknown = {"problem": None, "failure": None, "detail": None, "size_mib": None, "ctx": None}
    return {**unknown, "loaded_ctx": None, "state": "unloaded", "capabilities": ["chat"], **facts}


@pytest.mark.usefixtures("narrow")
def test_models(capsys: pytest.CaptureFixture[str]) -> None:
    models._table(
        [
            model(id=LONG, size_mib=16800, ctx=262144, detail="30B · Q4_K - Medium · qwen3moe"),
            model(id="acme/x", state="ready", ctx=8192, loaded_ctx=4096),
        ]
    )
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "…" not in shown
    for whole in ("○ unloaded", "16.4 GiB", "— / 262144", "4096 / 8192", "✓ ready"):
        assert whole in shown
    rows = [line for line in shown.splitlines() if "TRAINED" not in line and "MODEL" not in line]
    width = next(line.index("○") for line in rows if "○" in line)
    assert "".join(line[:width].strip() for line in rows) == LONG + "acme/x"


@pytest.mark.usefixtures("narrow")
def test_usage_and_requests(capsys: pytest.CaptureFixture[str]) -> None:
    usage._show_models(
        [
            {
                "model": LONG, "requests": 12345, "errors": 0, "prompt_tokens": 1234567,
                "completion_tokens": 1234567, "avg_tok_per_sec": 44700.0, "avg_ttft_ms": 12345.6,
                "energy_j": None,
            }
        ]
    )  # fmt: skip
    usage._show_requests(
        [
            {
                "time": "2026-01-31T12:00:00+00:00", "model": LONG, "status": 500,
                "prompt_tokens": 1234567, "completion_tokens": 12345, "tokens_counted": True,
                "tok_per_sec": 44700.0, "ttft_ms": 1234, "duration_ms": 1234567,
                "error": "the engine ended early",
            }
        ]
    )  # fmt: skip
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "…" not in shown
    for whole in ("1234567", "44700", "12346 ms", "~12345", "1234 ms"):
        assert whole in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(44700.0, "44700"), (62.24, "62.2"), (100.4, "100"), (0.0123, "0.012"), (1.0, "1.0")],
)
def test_a_measured_number_has_no_exponent(value: float, shown: str) -> None:
    assert figure(value) == shown
