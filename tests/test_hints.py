"""Hints read alike: each begins as a sentence does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [
    path
    for folder in ("cerberus_core", "plugins", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "tests" not in path.parts and "hint" in path.read_text()
]


def beginnings(value: ast.expr) -> Iterator[str]:
    """How the text begins that an expression makes, as far as that is written there."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.JoinedStr) and value.values:
        yield from beginnings(value.values[0])
    elif isinstance(value, ast.IfExp):
        yield from [*beginnings(value.body), *beginnings(value.orelse)]
    elif isinstance(value, ast.BoolOp):
        for part in value.values:
            yield from beginnings(part)


def hints(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (isinstance(node, ast.keyword) and node.arg == "hint") or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "hint"
        ):
            yield from beginnings(node.value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_a_hint_begins_with_a_capital(file: Path) -> None:
    found = list(hints(ast.parse(file.read_text())))
    small = [hint for hint in found if hint[:1].islower() and not hint.startswith("cerberus-")]
    assert small == []


def test_hints_are_found() -> None:
    tree = ast.parse('E("x", hint=f"a {b}"); E("y", hint=c or "d"); hint = "E" if f else "g"')
    assert sorted(hints(tree)) == ["E", "a ", "d", "g"]
