"""Tables as Markdown."""

from __future__ import annotations

import re

from .table import Table

_MARKS = ("{}", "**{}**", "<u>{}</u>")


def markdown(table: Table) -> list[str]:
    """The lines of a table, without its title and legend."""
    first, *others = (escaped(column) for column in table.full_header)
    align = ("---:|" if numeric else "---|" for numeric in table.numeric)
    lines = ["| " + " | ".join([first, *others]) + " |", "|---|" + "".join(align)]
    for label, row in table.rows:
        cells = [" ".join(filter(None, (_MARKS[cell.rank].format(cell.text), cell.extras))) for cell in row]
        lines.append(f"| {escaped(label)} | " + " | ".join(cells) + " |")
    return lines


def escaped(text: str) -> str:
    """A name as text of a Markdown table: no cell, tag or code begins in it."""
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), ("|", r"\|"), ("`", r"\`")):
        text = text.replace(sign, written)
    return text


def code(text: str) -> str:
    """As code, fenced by more backticks than it has."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"
