"""Results of any kind as terminal tables and as a Markdown document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ..report.forms import markdown, terminal_table
from ..report.grid import grids, printed

_METRICS = {
    "fpr95_ood_positive": "FPR95 (OOD positive)",
    "auroc": "AUROC",
    "aupr_in": "AUPR-IN",
    "aupr_out": "AUPR-OUT",
    "id-accuracy": "ID accuracy",
}


class Plain(NamedTuple):
    """A table of text."""

    title: str
    header: list[str]
    rows: list[list[str]]


def tables(results: Mapping[str, Any]) -> list[Table]:
    """For the terminal."""
    if "cells" in results:
        return [terminal_table(grid) for grid in grids(results)]
    return [_terminal(plain) for plain in _plain(results)]


def document(results: Mapping[str, Any]) -> str:
    """As Markdown."""
    if "cells" in results:
        return markdown(results) + _distributions(results) + _choice(results)
    lines = [f"# {results['title']}", "", f"Made by `{results['command']}`."]
    made = _plain(results)
    for title, header, rows in made:
        lines += ["", f"## {title}"] if len(made) > 1 else []
        lines += ["", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return "\n".join([*lines, "", f"{versions}.", ""])


def _terminal(plain: Plain) -> Table:
    table = Table(title=plain.title, title_justify="left", box=SIMPLE_HEAD)
    for column in plain.header:
        table.add_column(column)
    for row in plain.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _plain(results: Mapping[str, Any]) -> list[Plain]:
    kind = results["format"].split("/")[0]
    return {
        "theodolite-distances": _distances,
        "theodolite-checks": _checks,
        "theodolite-confirmation": _confirmation,
        "theodolite-false-alarms": _false_alarms,
    }[kind](results)


def _distances(results: Mapping[str, Any]) -> list[Plain]:
    names = ("mean", "std", "min", "max")
    rows = [
        [row["set"], *(f"{printed(row[name])} ({row['published'][name]})" for name in names)]
        for row in results["rows"]
    ]
    return [Plain(results["title"], ["set", *(f"{name} (published)" for name in names)], rows)]


def _checks(results: Mapping[str, Any]) -> list[Plain]:
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
    header = ["source", "set", "metric", "measured", "published", "agrees"]
    return [Plain(results["title"], header, rows)]


def _false_alarms(results: Mapping[str, Any]) -> list[Plain]:
    rows = [[row["score"], printed(row["learnt"]), printed(row["unseen"])] for row in results["rows"]]
    right = [printed(100 * results["accuracy"][key]) for key in ("learnt", "unseen")]
    header = ["% of new ID images flagged", "calibrated on learnt images", "on unseen images"]
    return [Plain(results["title"], header, [*rows, ["(accuracy of the network)", *right]])]


def _confirmation(results: Mapping[str, Any]) -> list[Plain]:
    """First the criterion, then every score on every task."""
    tasks = results["tasks"]
    criterion = [
        [
            name,
            rival,
            _spread(row["fpr95"], sign="+"),
            _spread(row["auroc"], sign="+"),
            f"{row['lower_fpr95']} and {row['higher_auroc']} of {task['networks']}",
            "yes" if row["holds"] else "NO",
        ]
        for name, task in tasks.items()
        for rival, row in task["against"].items()
    ]
    header = ["task", "against", "FPR95 difference", "AUROC difference", "networks won", "holds"]
    scores = [
        [label, *(f"{_spread(row['fpr95'])} / {_spread(row['auroc'])}" for row in rows)]
        for label in next(iter(tasks.values()))["scores"]
        for rows in [[task["scores"][label] for task in tasks.values()]]
    ]
    accuracy = ["(ID accuracy)", *(_spread(task["accuracy"]) for task in tasks.values())]
    return [
        Plain("Recommended minus rival, mean ± deviation over networks, in points", header, criterion),
        Plain("FPR95 / AUROC in %, mean ± deviation over networks", ["score", *tasks], [*scores, accuracy]),
    ]


def _spread(value: Mapping[str, float], sign: str = "") -> str:
    return f"{value['mean']:{sign}.2f} ± {value['std']:.2f}"


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
