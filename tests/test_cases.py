"""The table of field reports in tests/README.md tells the truth."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
ROWS = dict(
    re.findall(
        r"^\| ([GMCU]\d\d) \| .+? \| (.+) \|$", (TESTS / "README.md").read_text(), re.MULTILINE
    )
)
CLAIM = re.compile(r"`([\w/.-]+\.py)::(test_\w+)`")
COUNTS = {"G": 33, "M": 12, "U": 10, "C": 6}


def carried() -> set[str]:
    """Cases that some test of the tree carries in its name."""
    files = [
        *TESTS.rglob("test_*.py"),
        *ROOT.glob("plugins/*/tests/test_*.py"),
        *ROOT.glob("examples/*/tests/test_*.py"),
    ]
    names = re.findall(
        r"def test_((?:[gmcu]\d\d_)+)", "\n".join(file.read_text("utf-8") for file in files)
    )
    return {case.upper() for name in names for case in name.strip("_").split("_")}


def test_every_case_of_these_groups_is_in_the_table() -> None:
    assert set(ROWS) == {
        f"{group}{number:02}" for group, count in COUNTS.items() for number in range(1, count + 1)
    }


def test_every_claimed_test_is_there_and_carries_its_case() -> None:
    for case, row in ROWS.items():
        for file, name in CLAIM.findall(row):
            if not (ROOT / file).parent.exists():
                continue  # a plugin's folder may be gone
            assert f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{case}: {file}::{name}"
            assert f"_{case.lower()}_" in name


def test_a_case_that_no_test_carries_says_who_takes_it() -> None:
    for case, row in ROWS.items():
        if not CLAIM.search(row):
            assert re.match(r"(Issue \d|Later): ", row), case


def test_a_case_that_a_test_carries_is_claimed() -> None:
    claimed = {case for case, row in ROWS.items() if CLAIM.search(row)}
    assert carried() <= claimed
