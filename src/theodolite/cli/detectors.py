"""`theodolite detectors`: every score with its formula and paper."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from ._console import clean, screen


def detectors() -> None:
    """List every score: formula, what it needs to be fitted, paper."""
    screen().print(detectors_table())


def detectors_table() -> Table:
    """One row a score."""
    from ..detectors import RECOMMENDED, detector_record, list_detectors

    table = Table(title="Scores (higher = more in-distribution)", title_justify="left", show_lines=True)
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("formula")
    table.add_column("needs")
    table.add_column("paper")
    others = [*list_detectors(of_layers=True), *list_detectors(of_words=True)]
    for name in [*list_detectors(), *others]:
        record = detector_record(name)
        needs = ", ".join(record.detector().needs.names()) or "head only"
        needs = "several layers" if record.detector.of_layers else needs
        needs = "class names, and words that are none" if record.detector.of_words else needs
        shown = Text(f"{name}\n(recommended)" if name == RECOMMENDED else name)
        paper = Text(clean(f"{record.paper} ({record.year})"))
        table.add_row(shown, Text(clean(record.formula)), needs, paper)
    return table
