"""The table of field reports in tests/README.md tells the truth."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
ROWS = dict(
    re.findall(
        r"^\| ([GMCUA]\d\d) \| .+? \| (.+) \|$", (TESTS / "README.md").read_text(), re.MULTILINE
    )
)
CLAIM = re.compile(r"`([\w/.-]+\.py)::(test_\w+)`")
COUNTS = {"G": 33, "M": 12, "U": 10, "C": 6, "A": 14}


def carried() -> set[str]:
    """Cases that some test of the tree carries in its name."""
    files = [
        *TESTS.rglob("test_*.py"),
        *ROOT.glob("plugins/*/tests/test_*.py"),
        *ROOT.glob("examples/*/tests/test_*.py"),
    ]
    names = re.findall(
        r"def test_((?:[gmcua]\d\d_)+)", "\n".join(file.read_text("utf-8") for file in files)
    )
    return {case.upper() for name in names for case in name.strip("_").split("_")}


def test_every_case_of_these_groups_is_in_the_table() -> None:
    assert set(ROWS) == {
        f"{group}{number:02}" for group, count in COUNTS.items() for number in range(1, count + 1)
    }


def test_every_claimed_test_is_there_and_carries_its_case() -> None:
    for case, row in ROWS.items():
        for file, name in CLAIM.findall(row):
            if not here(file):
                continue
            assert f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{case}: {file}::{name}"
            assert f"_{case.lower()}_" in name


def test_a_case_that_no_test_carries_says_who_takes_it() -> None:
    for case, row in ROWS.items():
        if not CLAIM.search(row):
            assert re.match(r"(Issue \d|Later): ", row), case


def test_a_case_that_a_test_carries_is_claimed() -> None:
    claimed = {case for case, row in ROWS.items() if CLAIM.search(row)}
    assert carried() <= claimed


def test_a_case_that_is_listed_as_covered_has_a_test_that_carries_its_number() -> None:
    """In its name, wherever it stands: a row that names only words covers nothing."""
    covered = {case for case, row in ROWS.items() if not re.match(r"(Issue \d|Later): ", row)}
    elsewhere = {case for case in covered if not any(here(file) for file in files_of(case))}
    assert covered - elsewhere <= carried()


def test_the_folders_of_the_tests_are_all_told() -> None:
    told = (TESTS / "README.md").read_text("utf-8").partition("## Field reports")[0]
    folders = {file.parent.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")}
    assert [folder for folder in sorted(folders - {"."}) if f"`{folder}`" not in told] == []


def files_of(case: str) -> list[str]:
    return [file for file, _ in CLAIM.findall(ROWS[case])]


def here(file: str) -> bool:
    """A plugin's folder may be gone, and its tests with it."""
    return (ROOT / file).parent.exists()
