"""Tables on the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table as Screen
from rich.text import Text

from .table import Table, TableCell

_STYLES = ("", "bold", "underline")


def terminal(table: Table) -> Group:
    """For the screen: the interval of a cell stands below it, the published value beside it.

    Title and legend are lines of their own: as parts of a narrow table they would be folded to its width.
    """
    screen = Screen(box=SIMPLE_HEAD)
    first, *others = table.full_header
    screen.add_column(Text(first), no_wrap=all(table.numeric))
    for column, numeric in zip(others, table.numeric, strict=True):
        # On a narrow terminal a cell may take another line, but never lose a digit.
        screen.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for label, row in table.rows:
        screen.add_row(Text(label), *(_cell(cell) for cell in row))
    legend = [Text(table.legend, style="table.caption")] if table.legend else []
    return Group(Text(table.title, style="table.title"), screen, *legend)


def _cell(cell: TableCell) -> Text:
    text = Text(cell.text, style=_STYLES[cell.rank])
    gap = "\n" if cell.interval else " "
    return Text.assemble(text, (f"{gap}{cell.extras}", "dim")) if cell.extras else text
