"""Tables for a terminal of any width: nothing is cut off, and no name is broken."""

import sys
import textwrap
from collections.abc import Sequence

import attrs
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from .output import printable

_WIDE = 200  # where nobody looks: a pipe or a file
_GAP = "  "


@attrs.frozen
class Column:
    """`name` holds the heading's lines; `long`: where it doesn't fit, the row goes on below it."""

    name: str
    right: bool = attrs.field(default=False, kw_only=True)
    long: bool = attrs.field(default=False, kw_only=True)


def print_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> None:
    """Print it; `notes`, one for each row, stand at the end of the rows or, folded, below them."""
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    heading, lines = laid_out(columns, rows, notes, console.width)
    for line in heading:
        console.print(Text(line, style="bold"), soft_wrap=True)
    for line in lines:
        console.print(Text(line), soft_wrap=True)  # names are text, not markup


def laid_out(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], notes: Sequence[str], width: int
) -> tuple[list[str], list[str]]:
    """The lines of the heading and of the rows in a terminal of `width` cells. Pure.

    A name that is longer than the whole terminal is the only thing that passes its edge.
    """
    rows = [[_one_line(cell) for cell in row] for row in rows]
    notes = [_one_line(note) for note in notes] or [""] * len(rows)
    headings = [column.name.split("\n") for column in columns]
    widths = [
        max(map(cell_len, [*heading, *cells]))
        for heading, cells in zip(headings, zip(*rows, strict=True), strict=True)
    ]
    whole = sum(widths) + len(_GAP) * (len(widths) - 1)
    beside = whole + len(_GAP) + max(map(cell_len, notes)) <= width
    for at, column in enumerate(columns):
        if column.long and whole > width:
            room = widths[at] - (whole - width)
            fitting = [cell_len(row[at]) for row in rows if cell_len(row[at]) <= room]
            widths[at] = max([*map(cell_len, headings[at]), *fitting])
    above = [
        [heading[at] if at < len(heading) else "" for heading in headings]
        for at in range(max(map(len, headings)))
    ]
    lines = []
    for row, note in zip(rows, notes, strict=True):
        lines += _row(columns, row, widths)
        if note and beside:
            lines[-1] += " " * (whole - cell_len(lines[-1])) + _GAP + note
        elif note:
            lines += textwrap.wrap(
                note, width, initial_indent=_GAP, subsequent_indent=_GAP,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
    return [line for cells in above for line in _row(columns, cells, widths)], lines


def _row(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """A line, and another one after a name that is longer than its column."""
    lines, line, start = [], "", 0
    for column, cell, width in zip(columns, cells, widths, strict=True):
        space = " " * (width - cell_len(cell))
        line += space + cell if column.right else cell + space
        start += width + len(_GAP)
        if column.long and cell_len(cell) > width:
            lines.append(line)
            line = " " * start
        else:
            line += _GAP
    return [*lines, line.rstrip()]


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\N{REPLACEMENT CHARACTER}")
