"""Tables for a terminal of any width."""

import sys

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .output import printable

_WIDE = 200  # where nobody looks: a pipe or a file
_LEAST = 16  # of a column that folds, so that a name stays readable


@attrs.frozen
class Column:
    """`folds`: what doesn't fit goes on in the next line; others keep their width."""

    name: str
    right: bool = attrs.field(default=False, kw_only=True)
    folds: bool = attrs.field(default=False, kw_only=True)


def print_table(columns: list[Column], rows: list[list[str]]) -> None:
    """Print it; nothing is cut off."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not column.folds,
            min_width=min(_LEAST, max(map(len, cells))) if column.name == "MODEL" else None,
        )
    for row in rows:
        table.add_row(*[Text(_one_line(cell)) for cell in row])  # names are text, not markup
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\N{REPLACEMENT CHARACTER}")
