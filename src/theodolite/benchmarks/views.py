"""A subject looked at in another way: its inputs changed as a score asks, or several of its layers.

Features of either are in stores of their own, beside those of the features in front of the head; a score is
worked on the features it is a score of, and on no others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..core.errors import InputError
from ..detectors.spec import DetectorSpec
from ..features.asking import AsksModel, inputs_of
from ..features.layer_rows import LayerRows
from .feature_sets import FeatureSet, StoreSet


class View(NamedTuple):
    """What a score needs features of: inputs as they are or as it asks for them, one layer or several."""

    model_score: str | None = None
    layers: bool = False

    def __str__(self) -> str:
        return f"{'several layers' if self.layers else 'one layer'} of {inputs_of(self.model_score)}"


@dataclass(frozen=True)
class ViewRequest:
    """How features of a view are extracted: the ``score`` that asks, the names of several ``layer``\\ s."""

    score: AsksModel | None
    layer: str | None

    @property
    def view(self) -> View:
        observed = () if self.score is None else self.score.observes
        model_score = None if self.score is None else self.score.model_score
        return View(model_score, self.layer is not None or bool(observed))

    @property
    def suffix(self) -> str:
        """Tells the folder of the view apart from that of its subject."""
        model_score = None if self.score is None else self.score.model_score
        return hashlib.sha256(f"{model_score}\0{self.layer}".encode()).hexdigest()[:12]


def view_of(spec: DetectorSpec) -> View:
    """What features a spec is to be worked on."""
    return View(spec.template.model_score if spec.asks_model else None, spec.template.of_layers)


def requests(specs: Sequence[DetectorSpec], layers: Sequence[str]) -> list[ViewRequest]:
    """The views that specs need beside the features in front of the head, each once."""
    found: dict[View, ViewRequest] = {}
    for spec in specs:
        view = view_of(spec)
        if view == View() or view in found:
            continue
        several = ",".join(layers) if view.layers and layers else None
        if view.layers and several is None and not spec.template.observes:
            continue  # nothing says which layers: the run says so of the score
        found[view] = ViewRequest(spec.template if spec.asks_model else None, several)
    return list(found.values())


class ShownRows(NamedTuple):
    """What the features of a subject are of; ``rows`` is None for one layer."""

    model_score: str | None = None
    rows: LayerRows | None = None

    @property
    def view(self) -> View:
        return View(self.model_score, self.rows is not None)


def shown_rows(sets: Mapping[str, FeatureSet], name: str) -> ShownRows:
    """The same for all sets of a subject; refused where they differ."""
    found = {part: _of_set(rows) for part, rows in sets.items()}
    first, *others = found.items()
    for part, shown in others:
        if shown != first[1]:
            raise InputError(
                f"{name}: {first[0]} and {part} are features of different inputs or layers "
                f"({first[1].view} and {shown.view}): extract all sets in the same way"
            )
    return first[1]


def _of_set(rows: FeatureSet) -> ShownRows:
    if not isinstance(rows, StoreSet):
        return ShownRows()
    recipe = rows.store.manifest.recipe
    return ShownRows(recipe.model_score, recipe.rows)


def why_not(spec: DetectorSpec, shown: ShownRows) -> str:
    """Why a score is not worked on a subject's features."""
    wanted = view_of(spec)
    if wanted.model_score != shown.model_score:
        return (
            f"it needs features of {inputs_of(wanted.model_score)}, and these are of "
            f"{inputs_of(shown.model_score)}: run it on a model and pictures"
        )
    if wanted.layers:
        return "it scores several layers, and these are features of one: name them with --layer, on a model"
    return f"these are features of several layers ({shown.rows}), and it scores one: extract that alone"
