"""Results of any kind as terminal tables and as a Markdown document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from .forms import markdown, terminal_table
from .grid import grids, printed

_METRICS = {
    "fpr95_ood_positive": "FPR95 (OOD positive)",
    "auroc": "AUROC",
    "aupr_in": "AUPR-IN",
    "aupr_out": "AUPR-OUT",
    "id-accuracy": "ID accuracy",
}


def tables(results: Mapping[str, Any]) -> list[Table]:
    """For the terminal."""
    if "cells" in results:
        return [terminal_table(grid) for grid in grids(results)]
    header, rows = _plain(results)
    table = Table(title=results["title"], title_justify="left", box=SIMPLE_HEAD)
    for column in header:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return [table]


def document(results: Mapping[str, Any]) -> str:
    """As Markdown."""
    if "cells" in results:
        return markdown(results) + _distributions(results) + _choice(results)
    header, rows = _plain(results)
    lines = [f"# {results['title']}", "", f"Made by `{results['command']}`.", ""]
    lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return "\n".join([*lines, "", f"{versions}.", ""])


def _plain(results: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    if results["format"].startswith("theodolite-distances"):
        names = ("mean", "std", "min", "max")
        rows = [
            [row["set"], *(f"{printed(row[name])} ({row['published'][name]})" for name in names)]
            for row in results["rows"]
        ]
        return ["set", *(f"{name} (published)" for name in names)], rows
    rows = [
        [
            row["source"],
            row["set"],
            _METRICS[row["metric"]],
            row["measured"],
            row["published"],
            "yes" if row["agrees"] else "NO",
        ]
        for row in results["rows"]
    ]
    return ["source", "set", "metric", "measured", "published", "agrees"], rows


def _choice(results: Mapping[str, Any]) -> str:
    """The candidates of a choice in the order of its rule, where an experiment has made one."""
    if "choice" not in results:
        return ""
    lines = ["", f"## The choice, on {' and '.join(results['development'])}", ""]
    lines += ["| candidate | FPR95 | AUROC | FPR95 behind the best | eligible | tied | chosen |"]
    lines += ["|---|---:|---:|---:|---|---|---|"]
    for row in results["choice"]:
        low, high = (printed(bound) for bound in row["behind_best"])
        marks = ["yes" if row[key] else "" for key in ("eligible", "tied", "chosen")]
        figures = [printed(row["fpr95"]), printed(row["auroc"]), f"[{low}, {high}]"]
        lines.append("| " + " | ".join([row["candidate"], *figures, *marks]) + " |")
    return "\n".join([*lines, ""])


def _distributions(results: Mapping[str, Any]) -> str:
    """Mean ± deviation of every score on every set, where an experiment has recorded them."""
    if "distributions" not in results:
        return ""
    sets = list(next(iter(results["distributions"].values())))
    lines = ["", "## Mean ± standard deviation", ""]
    lines += ["| score | " + " | ".join(sets) + " |", "|---|" + "---:|" * len(sets)]
    for label, found in results["distributions"].items():
        cells = [f"{found[name]['mean']:.4f} ± {found[name]['std']:.4f}" for name in sets]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])
