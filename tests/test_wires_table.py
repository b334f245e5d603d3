"""docs/wires.md is what a test run says."""

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scripts.lib import wires_table as table

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"mark\.wire\(([^)]*)\)")


def case(*cells: str, inside: str = "") -> str:
    told = "".join(f'<property name="wire" value="{cell}"/>' for cell in cells)
    return f"<testcase><properties>{told}</properties>{inside}</testcase>"


def filled(*cases: str) -> dict[tuple[str, str], list[str]]:
    """(wire, feature) → its cells, as the page has them."""
    junit = ET.fromstring(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    found = table.results(junit)
    assert table.strangers(found) == []
    text = table.page(found, "")
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")][1:]
    wires = {name: wire for wire, name in table.PATHS.items()}
    cells, wire = {}, ""
    for name, feature, *row in lines:
        wire = wires.get(name.strip(), wire)
        cells[wire, feature.strip()] = [cell.strip() for cell in row]
    return cells


def test_cells_tell_real_scripted_failed_and_unrun_apart() -> None:
    cells = filled(
        case("chat | whole | llamacpp", "chat | a stream | llamacpp"),
        case("chat | whole | openai"),
        case("chat | whole | anthropic", inside="<failure/>"),
        case("chat | whole | anthropic"),
        case("chat | whole | ollama", inside="<skipped/>"),
        case("chat | a stream | lmstudio", inside="<error/>"),
    )
    assert cells["chat", "whole"] == [table.PASSED, table.SCRIPTED, table.FAILED, "", ""]
    assert cells["chat", "a stream"] == [table.PASSED, "", "", "", table.FAILED]
    assert cells["messages", "whole"] == [""] * 5
    assert list(cells) == [(wire, one) for wire, all in table.ROWS.items() for one in all]


@pytest.mark.parametrize("cell", ["chat | nonsense | openai", "chat | whole | nobody"])
def test_what_no_cell_is_for_is_no_result(cell: str) -> None:
    junit = ET.fromstring(f"<testsuites>{case(cell)}</testsuites>")
    assert len(table.strangers(table.results(junit))) == 1


def test_every_mark_has_a_row_and_every_row_a_test() -> None:
    marked = set()
    for file in ROOT.joinpath("tests").rglob("test_*.py"):
        if file != Path(__file__):
            for arguments in MARK.findall(file.read_text("utf-8")):
                wire, *features = re.findall(r'"([^"]*)"', arguments)
                marked |= {(wire, feature) for feature in features}
    assert marked == {(wire, one) for wire, all in table.ROWS.items() for one in all}


RUN = """
import pytest

@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.backend("openai"))])
def server(request):
    return request.param

@pytest.mark.wire("chat", "whole", "a stream")
def test_good(server):
    pass

@pytest.mark.wire("chat", "whole")
@pytest.mark.backend("llamacpp")
def test_bad():
    assert False
"""


def test_a_run_writes_what_its_marks_say(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  wire\n  backend\n")
    (tmp_path / "test_run.py").write_text(RUN)
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=out.xml", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert table.results(ET.parse(tmp_path / "out.xml").getroot()) == {
        ("chat", "whole", "openai"): [True],
        ("chat", "a stream", "openai"): [True],
        ("chat", "whole", "llamacpp"): [False],
    }


def test_the_page_has_the_rows_of_the_table() -> None:
    kept = (ROOT / "docs" / "wires.md").read_text("utf-8")
    assert table.rows(kept) == table.rows(table.page({}, ""))
