"""A subject looked at in another way: its inputs changed as a score asks, or several of its layers.

Features of either are in stores of their own, beside those of the features in front of the head; a score is
worked on the features it is a score of, and on no others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import InputError
from ..detectors.spec import DetectorSpec
from ..features.asking import AsksModel, inputs_of
from .feature_sets import FeatureSet
from .shown import ShownRows, View, shown_of


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


def shown_rows(sets: Mapping[str, FeatureSet], name: str) -> ShownRows:
    """The same for all sets of a subject; refused where they differ."""
    found = {part: shown_of(rows) for part, rows in sets.items()}
    first, *others = found.items()
    for part, shown in others:
        if shown != first[1]:
            raise InputError(
                f"{name}: {first[0]} and {part} are features of different inputs or layers "
                f"({first[1].view} and {shown.view}): extract all sets in the same way"
            )
    return first[1]


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
