"""Tables on the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table as Screen
from rich.text import Text

from .table import Table, TableCell

_STYLES = ("", "bold", "underline")


def terminal(table: Table) -> Screen:
    """For the screen: the interval of a cell stands below it, the published value beside it."""
    screen = Screen(
        title=Text(table.title),
        title_justify="left",
        box=SIMPLE_HEAD,
        caption=Text(table.legend) if table.legend else None,
        caption_justify="left",
    )
    first, *others = table.full_header
    screen.add_column(Text(first), no_wrap=all(table.numeric))
    for column, numeric in zip(others, table.numeric, strict=True):
        # On a narrow terminal a cell may take another line, but never lose a digit.
        screen.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for label, row in table.rows:
        screen.add_row(Text(label), *(_cell(cell) for cell in row))
    return screen


def _cell(cell: TableCell) -> Text:
    text = Text(cell.text, style=_STYLES[cell.rank])
    gap = "\n" if cell.interval else " "
    return Text.assemble(text, (f"{gap}{cell.extras}", "dim")) if cell.extras else text
