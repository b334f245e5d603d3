"""Tables in terminals of some widths: no name is broken, and nothing is cut off."""

import re
from typing import Any

import pytest
from rich.console import Console

from cerberus_core.cli import chat, doctor, models, table, usage
from cerberus_core.cli.output import figure

LONG = "llamacpp/Qwen3-Coder-30B-A3B-Instruct-UD-Q4_K_XL@unsloth/Qwen3-Coder-30B-A3B-Instruct"


ERROR = (
    "the endpoint at 127.0.0.1 broke off its answer after 12 s of silence; what had come until "
    "then was handed on"
)


@pytest.fixture(params=[80, 90, 120])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(table, "Console", lambda **_: Console(width=request.param))
    return int(request.param)


def model(**facts: object) -> dict[str, object]:
    unknown = {"problem": None, "failure": None, "detail": None, "size_mib": None, "ctx": None}
    return {
        **unknown,
        "loaded_ctx": None,
        "waits_for": [],
        "eta_s": None,
        "state": "unloaded",
        "capabilities": ["chat"],
        **facts,
    }


def fit(says: str, **facts: object) -> dict[str, Any]:
    return {"says": says, "takes_mib": None, "others": [], "short_mib": None, "why": None, **facts}


def request(**facts: object) -> dict[str, object]:
    return {
        "time": "2026-01-31T12:00:00+00:00", "model": "up/m", "status": 200,
        "prompt_tokens": 1234567, "completion_tokens": 12345, "tokens_counted": True,
        "tok_per_sec": 44700.0, "ttft_ms": 1234, "duration_ms": 1234567, "error": None, **facts,
    }  # fmt: skip


def lines_of(shown: str, width: int) -> list[str]:
    """The lines; all but those with the long name keep inside the terminal."""
    lines = shown.splitlines()
    assert "…" not in shown
    assert all(len(line) <= width for line in lines if LONG not in line)
    return lines


def test_models_keep_their_whole_ids_and_notes_stand_below(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    models._table(
        [
            model(id=LONG, size_mib=16800, ctx=262144, detail="30B · Q4_K - Medium · qwen3moe"),
            model(id="acme/x", state="ready", ctx=8192, loaded_ctx=4096),
            model(id="bad", problem=ERROR),
        ],
        {LONG: fit("no", short_mib=3277), "acme/x": fit("loaded")},
    )
    _, _, *lines = lines_of(capsys.readouterr().out, width)
    assert lines[0] == LONG
    assert re.split(" {2,}", lines[1].strip()) == [
        "○ unloaded", "16.4 GiB", "— / 262144", "chat", "no: 3.2 GiB short",
    ]  # fmt: skip
    assert lines[2] == "  30B · Q4_K - Medium · qwen3moe"
    assert lines[3].split() == ["acme/x", "✓", "ready", "—", "4096", "/", "8192", "chat", "loaded"]
    assert lines[4].startswith("bad  ")
    assert " ".join(line.strip() for line in lines[5:]) == ERROR
    assert lines[3].index("✓") == lines[1].index("○"), "in their columns, below as beside"


@pytest.mark.parametrize(
    ("told", "word"),
    [
        (None, "—"),
        ({"says": "yes"}, "yes"),
        ({"says": "after", "others": ["a"]}, "yes, 1 leaves"),
        ({"says": "after", "others": ["a", "b"]}, "yes, 2 leave"),
        ({"says": "waits", "others": ["a"]}, "waits for 1"),
        ({"says": "no", "short_mib": 900}, "no: 900 MiB short"),
        ({"says": "no", "short_mib": 123 * 1024}, "no: 123 GiB short"),
        ({"says": "no"}, "no: pinned"),
        ({"says": "oversize", "short_mib": 9}, "oversize"),
        ({"says": "unknown"}, "?"),
    ],
)
def test_what_fits_is_told_in_a_few_words(told: dict[str, Any] | None, word: str) -> None:
    assert models._fits(told and fit(**told)) == word


def test_the_widest_columns_leave_a_table_of_models_within_80(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    widest = model(
        id=LONG, state="draining", size_mib=1023 * 1024, loaded_ctx=262144, ctx=262144,
        capabilities=["chat", "vision"],
    )  # fmt: skip
    models._table([widest], {LONG: fit("no", short_mib=9.9 * 1024)})
    lines_of(capsys.readouterr().out, width)


def test_requests_show_every_number_and_the_whole_error(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    usage._show_requests([request(model=LONG, status=502, error=ERROR), request()])
    _, _, first, numbers, *error, last = lines_of(capsys.readouterr().out, width)
    assert first.endswith(LONG)
    told = ["1234567", "~12345", "44700", "1234", "ms", "1234567", "ms"]
    assert numbers.split() == ["502", *told]
    assert " ".join(line.strip() for line in error) == ERROR
    assert last.split()[2:] == ["up/m", "200", *told]
    assert last[-len("1234567 ms") :] == numbers[-len("1234567 ms") :]
    assert len(last) == len(numbers)


def test_usage_by_model(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "requests": 12345, "errors": 0, "prompt_tokens": 1234567,
        "completion_tokens": 1234567, "avg_tok_per_sec": 44700.0, "avg_ttft_ms": 12345.6,
        "energy_j": None, "cost": None,
    }  # fmt: skip
    usage._show_sums("MODEL", [(LONG, row)])
    _, _, name, numbers = lines_of(capsys.readouterr().out, width)
    assert name == LONG
    assert numbers.split() == ["12345", "0", "1234567", "1234567", "44700", "12346", "ms", "—"]


def test_what_fits_stands_in_one_line() -> None:
    columns = [table.Column("MODEL", long=True), table.Column("N", right=True)]
    heading, lines = table.laid_out(columns, [["a/模型", "1"], ["b", "22"]], ["so", "why"], 80)
    assert heading == ["MODEL    N"]
    assert lines == ["a/模型   1  so", "b       22  why"]


@pytest.mark.usefixtures("width")
def test_energy_and_its_price_are_shown_where_they_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {
        "requests": 3, "errors": 0, "prompt_tokens": 1, "completion_tokens": 2,
        "avg_tok_per_sec": 4.0, "avg_ttft_ms": 5.0, "energy_j": 7.2e6, "cost": None,
    }  # fmt: skip
    dark = {**row, "energy_j": None}
    usage._show_sums("MODEL", [("a/m", row), ("b/m", dark)], 0.31, "EUR")
    shown = capsys.readouterr().out
    assert "2000 Wh" in shown
    assert "0.6200" in shown
    usage._show_sums("MODEL", [("m", {**row, "energy_j": 100.0})], 0.31, "EUR")
    assert "<0.0001" in capsys.readouterr().out
    usage._show_sums("MODEL", [("m", {**row, "energy_j": 0.0})], 0.31, "EUR")
    assert " 0.0000" in capsys.readouterr().out
    usage._show_sums("KEY", [("laptop", row)])
    assert "EUR" not in capsys.readouterr().out
    usage._show_sums("KEY", [("laptop", {**dark, "cost": 1.5}), ("phone", dark)], None, "EUR")
    *heading, first, second = capsys.readouterr().out.splitlines()
    assert "EUR" in " ".join(heading)
    assert (first.split()[-1], second.split()[-1]) == ("1.5000", "—")
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
