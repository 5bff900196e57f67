"""The forms of a table: terminal, Markdown, LaTeX, CSV. All print the cells of one `Grid`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ..benchmarks.compare import shown
from ..benchmarks.results import TABLED
from ..evaluation.metrics import METRICS
from .grid import Grid, GridCell, grids, printed

_TERMINAL = ("", "bold", "underline")
_MARKDOWN = ("{}", "**{}**", "<u>{}</u>")
_LATEX = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "ε": r"$\varepsilon$",
    "†": r"$^{\dagger}$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
}
CSV_COLUMNS = ("model", "score", "ood", "metric", "value", "low", "high", "published")


def terminal_table(grid: Grid) -> Table:
    """For the screen: the interval of a cell stands below it, the published value beside it."""
    table = Table(
        title=Text(grid.title),
        title_justify="left",
        box=SIMPLE_HEAD,
        caption=Text(grid.legend),
        caption_justify="left",
    )
    table.add_column("score", no_wrap=True)
    for column in grid.columns:
        # On a narrow terminal a cell may take another line, but never lose a digit.
        table.add_column(Text(column), justify="right", overflow="fold")
    for label, row in grid.rows:
        table.add_row(Text(label), *(_terminal_cell(cell) for cell in row))
    return table


def _terminal_cell(cell: GridCell) -> Text:
    text = Text(cell.value, style=_TERMINAL[cell.rank])
    gap = "\n" if cell.interval else " "
    return Text.assemble(text, (f"{gap}{cell.extras}", "dim")) if cell.extras else text


def markdown(results: Mapping[str, Any]) -> str:
    """All tables of a run, with the command that made them."""
    lines = [f"# {marked_down(results['title'])}", "", f"Made by {code(results['command'])}.", ""]
    for model, facts in results["models"].items():
        counts = ", ".join(f"{marked_down(name)} {count:,}" for name, count in facts["samples"].items())
        accuracy = "" if facts["accuracy"] is None else f"; ID accuracy {printed(facts['accuracy'])} %"
        size = f"D = {facts['width']:,}, C = {facts['classes']:,}"
        lines += [f"**{marked_down(model)}**: {size}; {counts}{accuracy}.", ""]
    for grid in grids(results):
        lines += [f"## {marked_down(grid.title)}", "", *_markdown_rows(grid), "", f"{grid.legend}.", ""]
    if notes := left_out(results):
        lines += ["Left out:", "", *(f"- {note}" for note in notes), ""]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return "\n".join([*lines, f"{versions}.", ""])


def _markdown_rows(grid: Grid) -> list[str]:
    heads = " | ".join(marked_down(column) for column in grid.columns)
    lines = [f"| score | {heads} |", "|---|" + "---:|" * len(grid.columns)]
    for label, row in grid.rows:
        cells = [
            " ".join(filter(None, (_MARKDOWN[cell.rank].format(cell.value), cell.extras))) for cell in row
        ]
        lines.append(f"| {marked_down(label)} | " + " | ".join(cells) + " |")
    return lines


def marked_down(text: str) -> str:
    """A name as text of a Markdown table: no cell, tag or code begins in it."""
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), ("|", r"\|"), ("`", r"\`")):
        text = text.replace(sign, written)
    return text


def code(text: str) -> str:
    """As code, fenced by more backticks than it has."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def left_out(results: Mapping[str, Any]) -> list[str]:
    """What is not in the tables, and why."""
    lines = []
    for model, refused in results["refused"].items():
        lines += [f"{model}, {label}: {reason}" for label, reason in refused.items()]
    for model, facts in results["models"].items():
        lines += [f"{model}, {name} is missing: {reason}" for name, reason in facts["missing"].items()]
    return lines


def latex(results: Mapping[str, Any]) -> str:
    """A booktabs table for every metric and model."""
    parts = []
    for grid in grids(results):
        head = " & ".join(["Score", *(_escaped(column) for column in grid.columns)])
        body = [
            " & ".join([_escaped(label), *(_latex_cell(cell) for cell in row)]) + r" \\"
            for label, row in grid.rows
        ]
        parts += [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{_escaped(grid.title)}: {_escaped(grid.legend)}.}}",
            rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    return "\n".join(parts)


def _latex_cell(cell: GridCell) -> str:
    value = _LATEX[cell.rank].format(cell.value)
    return f"{value} {_escaped(cell.extras)}" if cell.extras else value


def _escaped(text: str) -> str:
    return "".join(_LATEX_SIGNS.get(sign, sign) for sign in text)


def csv_text(results: Mapping[str, Any]) -> str:
    """Every cell and metric, one a line; averages included."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for cell in results["cells"]:
        for metric in METRICS:
            bounds = [printed(bound) for bound in cell.get("intervals", {}).get(metric, ())]
            low, high = bounds or ("", "")
            published = shown(cell["published"].get(metric, [])) if metric in TABLED else None
            writer.writerow(
                (
                    cell["model"],
                    cell["entry"],
                    cell["ood"],
                    metric,
                    printed(cell[metric]),
                    low,
                    high,
                    published or "",
                )
            )
    return file.getvalue()
