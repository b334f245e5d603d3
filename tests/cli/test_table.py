"""Tables in 80 columns: names go on in the next line, and nothing is cut off."""

import pytest
from rich.console import Console

from cerberus_core.cli import chat, doctor, models, table, usage
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


@pytest.mark.usefixtures("narrow")
def test_energy_and_its_price_are_shown_where_they_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {
        "model": "llamacpp/qwen", "requests": 3, "errors": 0, "prompt_tokens": 1,
        "completion_tokens": 2, "avg_tok_per_sec": 4.0, "avg_ttft_ms": 5.0, "energy_j": 7.2e6,
    }  # fmt: skip
    usage._show_models([row], 0.31, "EUR")
    usage._show_models([{**row, "energy_j": None}], 0.31, "EUR")
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "2000 Wh" in shown
    assert "0.6200" in shown
    usage._show_models([row])
    assert "EUR" not in capsys.readouterr().out
    record = {
        "time": "2026-01-31T12:00:00+00:00", "model": "llamacpp/qwen", "status": 200,
        "prompt_tokens": 1, "completion_tokens": 2, "tokens_counted": False, "tok_per_sec": 4.0,
        "ttft_ms": 5, "duration_ms": 6, "error": None, "energy": "measured", "energy_j": 12.34,
    }  # fmt: skip
    usage._show_requests(
        [record, {**record, "energy": "estimated"}, {**record, "energy_j": None, "energy": None}]
    )
    lines = capsys.readouterr().out.splitlines()
    cells = [" ".join(line.split()[-2:]) for line in lines if " J" in line]
    assert cells == ["12.3 J", "~12.3 J"]
    assert lines[-1].rstrip().endswith("—")
    usage._show_requests([record, {**record, "status": 502, "error": "cut off"}])
    assert "502: cut" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({"energy_j": None}, ""),
        (
            {
                "energy_j": 14.5, "energy_gpu_j": 12.25, "energy_cpu_j": 2.25,
                "energy": "estimated", "tok_per_j": 3.5,
            },
            "~14.5 J (GPU 12.2, CPU 2.2) · 3.5 tok/J",
        ),
        ({"energy_j": 9.0, "energy_cpu_j": 9.0, "energy": "measured"}, "9.0 J (CPU 9.0)"),
    ],
)  # fmt: skip
def test_the_line_below_an_answer_tells_its_energy(told: dict[str, object], shown: str) -> None:
    assert chat._speed({"cerberus": told}) == shown


def test_doctor_tells_of_meters(capsys: pytest.CaptureFixture[str]) -> None:
    def meter(name: str, measures: str, **state: object) -> dict[str, object]:
        whole = {"ok": True, "detail": None, "hint": None, "warnings": [], **state}
        return {"name": name, "measures": measures, "state": whole}

    findings = doctor.Findings()
    doctor._meters(
        findings,
        {
            "meters": [
                meter("nvidia", "gpu", detail="2 cards", warnings=["A: lost"]),
                meter("rapl", "cpu", ok=False, detail="only root may read it", hint="a rule"),
            ]
        },
    )
    assert [(row["state"], row["what"], row["hint"]) for row in findings.rows] == [
        ("ok", "GPUs by nvidia: 2 cards", None),
        ("note", "GPUs by nvidia: A: lost", None),
        ("note", "Energy by rapl: only root may read it", "a rule"),
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(44700.0, "44700"), (62.24, "62.2"), (100.4, "100"), (0.0123, "0.012"), (1.0, "1.0")],
)
def test_a_measured_number_has_no_exponent(value: float, shown: str) -> None:
    assert figure(value) == shown
