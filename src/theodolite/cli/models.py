"""`theodolite models`: the backbones that have a short name."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ._console import clean, screen


def models() -> None:
    """List the paper's backbones: checkpoint, feature width, input size, accuracy, weights here or not."""
    screen().print(models_table())


def models_table() -> Table:
    """One row a backbone."""
    from ..models import list_models, list_sources, weights_present

    table = Table(
        title="Models by alias",
        title_justify="left",
        box=SIMPLE_HEAD,
        caption=Text(clean(f"any other: SOURCE:NAME with a source of {', '.join(list_sources())}")),
        caption_justify="left",
    )
    table.add_column("alias", no_wrap=True, style="bold")
    table.add_column("checkpoint", overflow="fold")
    table.add_column("classes of", no_wrap=True)
    for column in ("width", "input", "acc. %"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("weights", no_wrap=True)
    for card in list_models():
        table.add_row(
            card.alias,
            Text(card.spec + (f" ({card.note})" if card.note else "")),
            card.data,
            str(card.width),
            str(card.input_size),
            "" if card.accuracy is None else f"{card.accuracy:.2f}",
            "here" if weights_present(card.spec) else "absent",
        )
    return table
