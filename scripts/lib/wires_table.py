"""Fills docs/wires.md from a test run's JUnit file, or checks that its rows are fresh (`--check`).

    scripts/test -n 2 --dist worksteal --junitxml=.cache/junit.xml
    .venv/bin/python scripts/lib/wires_table.py .cache/junit.xml

A test says what it proves by `@pytest.mark.wire("messages", "a stream")`, and by
`@pytest.mark.backend("llamacpp")` on itself, its parameter or its module against what.
"""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "docs" / "wires.md"

ROWS = {
    "chat": (
        "whole", "a stream", "a tool call", "a tool call written into the text",
        "JSON by a schema", "a stop sequence", "an image", "audio", "refusals in its words",
    ),
    "completions": ("whole", "a stream", "a stop sequence", "refused where it is not spoken"),
    "embeddings": ("vectors", "refused where there are none"),
    "rerank": ("documents by their scores", "refused where it is not spoken"),
    "messages": (
        "whole", "a stream", "a tool call", "a tool call written into the text",
        "a stop sequence", "an image", "tokens counted",
        "pings in a silent stream", "refusals in its words", "errors in a stream",
    ),
    "responses": (
        "whole", "a stream", "a tool call", "a tool call written into the text",
        "JSON by a schema", "an image",
        "refusals in its words", "errors in a stream",
    ),
    "models": ("the list", "one of them"),
    "transcriptions": ("a text of a file", "a stream", "refused where it is not spoken"),
    "translations": ("a text of a file",),
    "speech": ("sound of a text", "refused where it is not spoken"),
    "images": ("a picture of words", "a picture of a picture", "refused where it is not spoken"),
}  # fmt: skip
PATHS = {
    "chat": "Chat Completions",
    "completions": "Completions",
    "embeddings": "Embeddings",
    "rerank": "Rerank",
    "messages": "Anthropic Messages",
    "responses": "Responses",
    "models": "Models",
    "transcriptions": "Transcriptions",
    "translations": "Translations",
    "speech": "Speech",
    "images": "Images",
}
COLUMNS = {
    "llamacpp": "llamacpp, embedded engine",
    "openai": "OpenAI-shaped endpoint (scripted)",
    "anthropic": "Messages-shaped endpoint (scripted)",
    "ollama": "Ollama (stand-in)",
    "lmstudio": "LM Studio (stand-in)",
}
REAL = frozenset({"llamacpp"})
"""The others are programs of the tests."""
PASSED, SCRIPTED, FAILED = "yes", "scripted", "🔴 failed"
TEXT = """# Wires

What a client may speak, and with what behind Cerberus a test has proven it. A client of any row
reaches any backend that answers chats: where the backend doesn't speak its wire, Cerberus
translates; audio and images pass to endpoints that name them in their `wires`, and are proven on
the scripted server alone. `scripts/lib/wires_table.py` fills the cells from a test run.

`{passed}`: on a real engine. `{scripted}`: on a program of the tests alone, which stands for such a
backend. {failed}: in that run. Blank: no test of it ran.

{table}

{run}
"""

Cell = tuple[str, str, str]
"""Wire, feature, backend."""


def results(junit: ET.Element) -> dict[Cell, list[bool]]:
    """Of each cell, whether its tests passed; skipped ones are none."""
    found: dict[Cell, list[bool]] = {}
    for case in junit.iter("testcase"):
        if case.find("skipped") is not None:
            continue
        good = case.find("failure") is None and case.find("error") is None
        for one in case.iter("property"):
            if one.get("name") == "wire":
                wire, feature, backend = (one.get("value") or "").split(" | ")
                found.setdefault((wire, feature, backend), []).append(good)
    return found


def strangers(cells: Iterable[Cell]) -> list[str]:
    """Those that no row or column is for."""
    return [
        f"{wire}, {feature}, {backend}"
        for wire, feature, backend in cells
        if feature not in ROWS.get(wire, ()) or backend not in COLUMNS
    ]


def page(found: Mapping[Cell, list[bool]], run: str) -> str:
    lines = [f"| | | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 2) + "|"]
    for wire, features in ROWS.items():
        for number, feature in enumerate(features):
            cells = [_cell(found.get((wire, feature, backend)), backend) for backend in COLUMNS]
            name = "" if number else PATHS[wire]
            lines.append(f"| {' | '.join([name, feature, *cells])} |")
    table = "\n".join(lines)
    return TEXT.format(table=table, run=run, passed=PASSED, scripted=SCRIPTED, failed=FAILED)


def rows(text: str) -> list[tuple[str, str]]:
    """(first, second column) of each row of a table."""
    cells = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    return [(cell[1].strip(), cell[2].strip()) for cell in cells]


def _cell(good: list[bool] | None, backend: str) -> str:
    if not good:
        return ""
    if not all(good):
        return FAILED
    return PASSED if backend in REAL else SCRIPTED


def main(arguments: list[str]) -> int:
    """1 if something is wrong."""
    if arguments == ["--check"]:
        kept = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        if rows(kept) == rows(page({}, "")):
            return 0
        sys.stderr.write("docs/wires.md has other rows than scripts/lib/wires_table.py\n")
        return 1
    junit = ET.parse(arguments[0]).getroot()
    found = results(junit)
    unknown = strangers(found)
    if unknown:
        sys.stderr.write("".join(f"There is no cell for {cell}\n" for cell in unknown))
        return 1
    suite = next(junit.iter("testsuite"))
    day = (suite.get("timestamp") or "").partition("T")[0]
    TARGET.write_text(page(found, f"From the run of {day}."), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
