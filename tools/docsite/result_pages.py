"""Pages about what was measured: committed tables with their commands, ours beside published figures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from theodolite.benchmarks.result import FORMAT, RunResult
from theodolite.paper import items
from theodolite.published import PublishedCell, load_table

from .docstrings import prose
from .settings import Entry

_MADE_BY = re.compile(r"^Made by `([^`]+)`", re.MULTILINE)
# The ablations of the paper that have a table here, with the heading of each.
_ABLATIONS = {"aggregation": "Aggregation", "centring": "Centring", "shaping": "Shaping"}
_DEFAULTS = {"aggregate": "max", "centre": "mean"}
# Our networks beside the two of those tables: neither the paper's network nor its OOD sets.
_OURS = {"cifar10": ("cifar10-densenet",), "imagenet": ("imagenet-lite0", "imagenet-resnet50")}


@dataclass(frozen=True)
class Table:
    """A committed page of results: its file, what it is, and the command that made it."""

    name: str
    title: str
    command: str


def committed(pages: Mapping[str, str]) -> list[Table]:
    """The pages of results/; one that does not name its command is an error."""
    found = []
    for place, text in pages.items():
        if not place.startswith("results/"):
            continue
        made = _MADE_BY.search(text)
        if made is None:
            raise ValueError(f"{place} does not say which command made it: Made by `theodolite …`.")
        title = text.partition("\n")[0].removeprefix("# ")
        found.append(Table(place.removeprefix("results/").removesuffix(".md"), title, made[1]))
    return found


def result_entries(tables: list[Table]) -> list[Entry]:
    """The pages in the navigation."""
    pages: list[Entry] = [(table.title, f"results/{table.name}.md") for table in tables]
    return [("All tables", "results/index.md"), *pages]


def results_index(tables: list[Table]) -> str:
    """Every committed table with its command."""
    rows = [f"| [{table.title}]({table.name}.md) | `{table.command}` |" for table in tables]
    lines = [
        "# All tables",
        "",
        "Every committed table, as a page here and as JSON in `results/`, with the command that makes it. "
        "Tests recompute them to every digit. What they say: [results](../results.md).",
        "",
        "| table | made by |",
        "|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def reproduction_tables(folder: Path) -> str:
    """The paper's tables and what stands in for each; then its ablations, ours beside published figures."""
    parts = [_paper_items()]
    for name, heading in _ABLATIONS.items():
        parts.append(_beside(name, heading, _runs(folder, name)))
    return "\n\n".join(parts) + "\n"


def _paper_items() -> str:
    rows = [
        f"| `theodolite reproduce {item.name}` | {prose(item.title)} | {_links(item.stand_ins)} |"
        for item in items().values()
    ]
    head = [
        "## The paper's tables and figures",
        "",
        "| command | what it is | on the data at hand |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def _links(experiments: tuple[str, ...]) -> str:
    return ", ".join(f"`theodolite reproduce {name}`" for name in experiments) or "nothing"


def _runs(folder: Path, name: str) -> dict[str, RunResult]:
    """The committed runs of an experiment, by the network they are of."""
    found = {}
    for network in [each for networks in _OURS.values() for each in networks]:
        path = folder / f"{name}-{network}.json"
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"{path.name} has format {content['format']!r}, expected {FORMAT}")
        found[network] = RunResult.from_json(content)
    return found


def _beside(name: str, heading: str, runs: Mapping[str, RunResult]) -> str:
    cells = [cell for cell in load_table(name).cells() if cell.metric == "fpr95" and cell.ood == "average"]
    protocols = list(dict.fromkeys(str(cell.protocol) for cell in cells))
    published = {(_spec(cell), str(cell.protocol)): cell.printed for cell in cells}
    columns = [
        column
        for protocol in protocols
        for column in (f"{protocol}, paper", *(f"{each}, ours" for each in _OURS[protocol]))
    ]
    rows = []
    for spec in dict.fromkeys(_spec(cell) for cell in cells):
        figures = []
        for protocol in protocols:
            figures.append(published.get((spec, protocol), ""))
            figures += [_average(runs[network], network, spec) for network in _OURS[protocol]]
        rows.append(f"| `{spec}` | {' | '.join(figures)} |")
    commands = ", ".join(f"`{command}`" for command in dict.fromkeys(run.command for run in runs.values()))
    lines = [
        f"## {heading}",
        "",
        "FPR95 in %, mean over the OOD sets of each network.",
        "",
        f"| ORA | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
        *rows,
        "",
        f"Made by {commands}; the paper's figures are its table `{name}` (`theodolite reproduce {name}`).",
    ]
    return "\n".join(lines)


def _spec(cell: PublishedCell) -> str:
    """What `bench --detector` takes for it."""
    chosen = {
        key: value for key, value in cell.options.items() if key in _DEFAULTS and value != _DEFAULTS[key]
    }
    asked = "".join(f"?{key}={value}" for key, value in chosen.items())
    shaping = f"+{cell.options['shaping']}:{cell.options['percentile']}" if "shaping" in cell.options else ""
    return f"{cell.detector}{asked}{shaping}"


def _average(run: RunResult, network: str, spec: str) -> str:
    labels = [label for label, facts in run.detectors.items() if facts.text == spec]
    if not labels:
        return ""
    values = [run.cell(network, labels[0], ood, "fpr95").value for ood in run.ood_names(network)]
    return f"{sum(values) / len(values):.2f}"
