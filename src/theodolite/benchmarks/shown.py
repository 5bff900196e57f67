"""What features are of: inputs as they are or as a score asks for them, one layer of a model or several."""

from __future__ import annotations

from typing import NamedTuple

from ..features.asking import inputs_of
from ..features.layer_rows import LayerRows


class View(NamedTuple):
    """What a score needs features of: inputs as they are or as it asks for them, one layer or several."""

    model_score: str | None = None
    layers: bool = False

    def __str__(self) -> str:
        return f"{'several layers' if self.layers else 'one layer'} of {inputs_of(self.model_score)}"


class ShownRows(NamedTuple):
    """What the features of a subject are of; ``rows`` is None for one layer."""

    model_score: str | None = None
    rows: LayerRows | None = None

    @property
    def view(self) -> View:
        return View(self.model_score, self.rows is not None)


def shown_of(rows: object) -> ShownRows:
    """What a set's features are of, where it knows (``shown``); else inputs as they are and one layer."""
    found = getattr(rows, "shown", None)
    return found if isinstance(found, ShownRows) else ShownRows()
