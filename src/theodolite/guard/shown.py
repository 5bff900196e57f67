"""What a guard's features are of: inputs as they are, or as a score asks for them; one layer, or several.

A score that changes the model's inputs is calibrated on features of changed inputs, and then judges such and
no others; on features of inputs as they are it takes the form it has there, under its own name (ODIN: ε = 0),
and never judges others. Features of several layers are scored layer by layer.
"""

from __future__ import annotations

from typing import NamedTuple

from ..core.errors import InputError
from ..detectors import Detector, Layered, MultiLayer, create
from ..detectors.spec import spec_text
from ..features.asking import inputs_of
from ..features.capture import Captured
from ..features.layer_rows import LayerRows
from ..features.store import FeatureStore, StoreParts
from .origin import Origin
from .provenance import Provenance


class Shown(NamedTuple):
    """``model_score`` is None for inputs as they are, ``rows`` for the features in front of the head."""

    model_score: str | None = None
    rows: LayerRows | None = None

    def __str__(self) -> str:
        return inputs_of(self.model_score) + ("" if self.rows is None else f", layers {self.rows}")


def shown_of(features: object) -> Shown:
    """What features are of: those of a capture and of stores know it, others are of inputs as they are."""
    if isinstance(features, Captured):
        return Shown(features.capture.model_score, features.capture.rows)
    if isinstance(features, StoreParts):
        features = features.parts[0]
    if isinstance(features, FeatureStore):
        recipe = features.manifest.recipe
        return Shown(recipe.model_score, recipe.rows)
    return Shown()


def require_shown_alike(features: object, calibration: object) -> None:
    """Refuse to calibrate on features of other inputs, or of other layers, than those fitted on."""
    one, other = shown_of(features), shown_of(calibration)
    if calibration is not None and one != other:
        raise InputError(
            f"the features to fit on are of {one}, those to calibrate on of {other}: a threshold belongs to "
            f"the scores it was set on. Give both in the same way"
        )


def suited(detector: Detector, shown: Shown) -> Detector:
    """The score in the form that such features take; refused where there is none."""
    detector = _for_layers(detector, shown.rows)
    if detector.model_score == shown.model_score:
        return detector
    if shown.model_score is not None:
        raise InputError(
            f"the features are of {inputs_of(shown.model_score)}, and {detector.record.title} scores those "
            f"of {inputs_of(detector.model_score)}: fit on pictures, or on a store of those"
        )
    return _on_features(detector)


def asking(detector: Detector) -> Detector | None:
    """The score, where it asks more of a model than features."""
    return None if detector.model_score is None else detector


def note_on(detector: Detector, model_score: str | None) -> str | None:
    """What is to be said of a score that can change the model's inputs."""
    if not detector.record.on_features.options:
        return None
    title = title_of(detector, model_score)
    if model_score is None:
        return (
            f"{title} works from the features of unchanged inputs: its nudge is left out, when calibrating "
            f"as when scoring. Fit on pictures (--model) to have it"
        )
    return (
        f"{title} nudges every input, when calibrating as when scoring: two passes forward and one backward "
        f"for each. The guard judges images, not features"
    )


def title_of(detector: Detector, model_score: str | None) -> str:
    """A score by name: with its mark where it leaves out what it would ask of a model, and its layers."""
    record = detector.record
    if isinstance(detector, Layered) and detector.layer_rows is not None:
        return f"{detector.detector} on {len(detector.layer_rows.names)} layers ({detector.combine})"
    left_out = record.on_features.options and model_score is None
    return f"{record.title} ({record.on_features.mark})" if left_out else record.title


def require_own_inputs(
    detector: Detector, provenance: Provenance | None, origin: Origin | None
) -> str | None:
    """What the guard's score asks of the model; refused if it was calibrated on something else."""
    known = provenance or origin
    model_score = None if known is None else known.model_score
    if model_score is not None and detector.model_score != model_score:
        raise InputError(
            f"the guard was calibrated on {inputs_of(model_score)}, but its score is "
            f"{detector.model_score or detector.record.name}: fit the guard again"
        )
    return model_score


def require_several(detector: Detector) -> None:
    """Refuse what needs one pass, or one layer, of a score of several."""
    if detector.of_layers:
        raise InputError(
            f"{detector.record.title} scores several layers, and reads its rows more than once: fit it on "
            f"the data itself (theodolite fit), not on parts"
        )


def require_for_layers(detector: Detector) -> None:
    """Refuse a score that cannot look at layers before the last."""
    if not detector.of_layers:
        Layered(detector=spec_text(detector))


def _for_layers(detector: Detector, rows: LayerRows | None) -> Detector:
    """A score of several layers, that knows whose columns the rows have."""
    if rows is None:
        return detector
    if not isinstance(detector, MultiLayer):
        return Layered(detector=spec_text(detector), layers=str(rows))
    return detector.for_rows(rows)


def _on_features(detector: Detector) -> Detector:
    """The form that a score takes where only features are; one with settings of its own is refused."""
    record, fixed = detector.record, detector.record.on_features.options
    published = type(detector)().options() if fixed else {}
    if not fixed or any(detector.options()[key] != published[key] for key in fixed):
        remedy = "&".join(f"{key}={value:g}" for key, value in fixed.items())
        other = f", or ask for the form without it: {record.name}?{remedy}" if fixed else ""
        raise InputError(
            f"{detector.model_score} asks more of the model than these features hold, which are of inputs as "
            f"they are: fit on pictures, with a --model{other}"
        )
    return create(record.name, **{**detector.options(), **fixed})
